#!lua flags=allow-oom
-- view reads a semaphore, its leases by pages; what cools and the line come with the first.
--
-- The pages go by (expiry, lease). An expiry never gets smaller, so a lease that lives all the while is on one of them,
-- though on two if it was renewed in between.
--
-- KEYS    node, semaphore, used, ends, cooling
-- ARGV    head, at, '', cursor ('' at first), count (of leases)
-- replies "<says> <time> <more> <last fence> <longest TTL> <end of the wait> <how many cool> <how many places>", the next cursor
--         ('' at the end), the definition as in semaphore.lua, its data, of what cools "slots lease" and the end by turns, the
--         places as in line.lua, and the leases, id and record by turns
--
-- with now text admit slots lease twice semaphore line after end

local cursor, count = ARGV[4], tonumber(ARGV[5])
local cooling_most = 10000 -- entries in an answer
local reply = { '', '', read[1] or '', call('HGET', KEYS[2], 'data') or '' }

local start, cooling, place_count = 0, {}, 0
if cursor == '' then
  cooling = call('ZRANGE', KEYS[5], 0, cooling_most - 1, 'WITHSCORES')
  for i = 1, #cooling, 2 do
    reply[#reply + 1], reply[#reply + 2] = cooling[i], format('%.0f', tonumber(cooling[i + 1]))
  end
  for i = 1, line and #line.places or 0 do
    reply[#reply + 1] = line.text(line.places[i])
    place_count = i
  end
else
  local score, last = match(cursor, '^(%d+) (.*)$')
  start = after(KEYS[4], score, (last:gsub(' ', '\0')))
end

local page = call('ZRANGE', KEYS[4], start, start + count - 1, 'WITHSCORES')
if page[1] then
  local fields = {}
  for i = 1, #page, 2 do
    fields[#fields + 1] = 'lease:' .. page[i]
  end
  local records = call('HMGET', KEYS[2], unpack(fields))
  for i = 1, #records do
    reply[#reply + 1], reply[#reply + 2] = match(page[2 * i - 1], '^%S+'), records[i]
  end
  if start + count < call('ZCARD', KEYS[4]) then
    reply[2] = format('%.0f', tonumber(page[#page])) .. ' ' .. page[#page - 1]
  end
end

reply[1] = finish('done') .. ' ' .. s.fence .. ' ' .. s.longest .. ' ' .. format('%.0f', s.wait or 0) .. ' ' .. #cooling / 2 .. ' ' .. place_count
return reply
