#!lua
-- accept is the second half of a change of a register; see engine.Accept.
--
-- KEYS    node, semaphore or register, used, ends, cooling, names
-- ARGV    head, at, '', ballot ("counter replica"), the definition as in semaphore.lua less the ballot, data, whether it
--         is a semaphore's (1 or 0)
-- replies "<says> <time> <more>"; of no, then the promise
--
-- with now text admit slots lease semaphore line end register

local asked, what, data, is_semaphore = unpack(ARGV, 4)
local name = KEYS[2]:sub(#KEYS[1] + 1) -- after "<prefix>:sem:": as long as "<prefix>:node"

if smaller(asked, largest) then
  return { finish('no'), largest }
end
local limit, hold, paused, deleted = match(what, '^(%d+) (%d+) (%d) (%d)$')
s.defined, s.paused = deleted == '0', paused == '1'
s.limit, s.hold = s.defined and tonumber(limit) or 0, s.defined and tonumber(hold)
for field, value in pairs({ promise = asked, definition = asked .. ' ' .. what, data = data }) do
  set[#set + 1], set[#set + 2] = field, value
end
if is_semaphore == '1' then
  if s.defined then
    call('ZADD', KEYS[6], '0', name)
  else
    call('ZREM', KEYS[6], name)
  end
end
if line then
  line.wake('')
end
return { finish('accepted') }
