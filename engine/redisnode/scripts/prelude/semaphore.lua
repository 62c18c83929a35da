-- The semaphore that the operation names, and step 4: what is over there is dropped, at most 1,000 entries or 10,000
-- slots, but always one.
--
-- KEYS[2]  the semaphore, a hash:
--            definition  "counter replica limit hold paused deleted", as accepted; hold is min_hold in µs
--            data        the rest of the definition
--            promise     "counter replica"
--            state       "fence used top longest due wait odd":
--                          fence    the last fence
--                          used     how many slots are in use; all of them are smaller than top
--                          longest  the longest TTL, µs
--                          due      no lease and nothing that cools is over before, µs
--                          wait     the end of the wait after a cold start, µs; 0: none
--                          odd      1 if there is something that only a readmission brings
--            odd         that: see twice.lua
--            line        the places: see line.lua
--            lease:<id>  a lease: see lease.lua
-- KEYS[3]  the bitmap of the slots that are in use
-- KEYS[4]  the leases, sorted by expiry, those without at 2^53
-- KEYS[5]  what cools, "<slots> <lease>", sorted by when it is over
-- ARGV[3]  the lease that the operation names, if it names one
--
-- Every field that is read, every function and every table costs a script time, and leaves something to be swept up.

local never = 9007199254740992 -- 2^53 µs
local lease = ARGV[3]
local read = call('HMGET', KEYS[2], 'definition', 'state', 'line', 'lease:' .. lease)
local own = read[4] and parse(read[4]) -- the record of the lease; false: there is none
local id = lease                       -- the name of that record

local ballot, limit, hold, paused, deleted = match(read[1] or '0  0 0 0 1', '^(%d+ %S*) (%d+) (%d+) (%d) (%d)$')
local fence, used, top, longest, due, wait, odd =
  match(read[2] or '0 0 0 0 9007199254740992 0 0', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d)$')
local twice = odd == '1' and open_twice(KEYS[2], KEYS[4]) -- false: nothing is odd
local defined = deleted == '0'
local s = {
  ballot = ballot,                                   -- of the definition, "counter replica"
  defined = defined,                                 -- there is one, and it is not deleted
  limit = defined and tonumber(limit) or 0,
  hold = defined and hold ~= '0' and tonumber(hold), -- false: none
  paused = paused == '1',
  fence = fence, used = tonumber(used), top = tonumber(top), longest = longest, due = tonumber(due),
  wait = (node[5] or wait ~= '0') and math.max(wait, node[5] or 0), -- the node's own counts too; false: none
}
-- Mostly not set: s.freed, the smallest slot that became free; s.stirred, slots became free or a place lapsed, and nobody was
-- woken yet; s.more, more is due to be dropped; s.dropped and s.dropped_slots, what was.

local set = {} -- what is to be written to the hash in the end, fields and values by turns

-- below counts the slots in use that are smaller than bound.
local function below(bound)
  if bound >= s.top then
    return s.used
  end
  local byte = math.floor(bound / 8)
  local sum = byte > 0 and call('BITCOUNT', KEYS[3], 0, byte - 1) or 0
  for slot = byte * 8, bound - 1 do
    sum = sum + call('GETBIT', KEYS[3], slot)
  end
  return sum
end

-- let_go frees slots that a lease had, or lets them cool until granted + min_hold if they may. What cooled has no lease.
local function let_go(slots, id, granted, may_cool)
  if may_cool and s.hold and granted + s.hold > now then
    local over, member = granted + s.hold, slots .. ' ' .. match(id, '^%S+')
    local other = twice and call('ZSCORE', KEYS[5], member)
    if other then -- two attempts with the same slots cool as one
      over = math.max(over, other)
      twice.free(slots)
    end
    call('ZADD', KEYS[5], format('%.0f', over), member)
    s.due = math.min(s.due, over)
    return
  end
  if twice then
    slots = twice.free(slots)
    if slots == '' then
      return
    end
  end
  s.used = s.used - paint(slots, 0)
  local first = tonumber(match(slots, '^%d+'))
  s.freed = s.freed and s.freed < first and s.freed or first
  s.stirred = true
end

-- forget drops the own record, and returns what then is that of the lease; false: none.
local function forget()
  call('ZREM', KEYS[4], id)
  call('HDEL', KEYS[2], 'lease:' .. id)
  if not twice then
    return false
  end
  twice.ended({ id }, 1)
  local text = call('HGET', KEYS[2], 'lease:' .. lease)
  return text and parse(text)
end

-- may_drop counts what is dropped, and reports whether there is room for it.
local function may_drop(slots)
  local count, sum = s.dropped or 0, s.dropped_slots or 0
  for first, last in gmatch(slots, '(%d+)%-?(%d*)') do
    sum = sum + (tonumber(last) or first) - first + 1
  end
  if count > 0 and (count >= 1000 or sum > 10000) then
    s.more = true
    return false
  end
  s.dropped, s.dropped_slots = count + 1, sum
  return true
end

-- drop drops what is over.
local function drop()
  local lapsed, fields, count = call('ZRANGEBYSCORE', KEYS[4], '-inf', stamp, 'LIMIT', '0', '1001'), {}, 0
  for i = 1, #lapsed do
    fields[i] = 'lease:' .. lapsed[i]
  end
  local records = lapsed[1] and call('HMGET', KEYS[2], unpack(fields))
  for i = 1, #lapsed do
    local l = parse(records[i])
    if not may_drop(l.slots) then
      break
    end
    count = i
    let_go(l.slots, lapsed[i], l.granted, true)
    if lapsed[i] == lease then
      own = false
    end
  end
  if count > 0 then
    call('ZREM', KEYS[4], unpack(lapsed, 1, count))
    call('HDEL', KEYS[2], unpack(fields, 1, count))
    if twice then
      twice.ended(lapsed, count)
      local text = call('HGET', KEYS[2], 'lease:' .. lease)
      own = text and parse(text)
    end
  end

  local warm
  warm, count = call('ZRANGEBYSCORE', KEYS[5], '-inf', stamp, 'LIMIT', '0', '1001'), 0
  for i = 1, #warm do
    local slots = match(warm[i], '^%S+')
    if not may_drop(slots) then
      break
    end
    count = i
    let_go(slots)
  end
  if count > 0 then
    call('ZREM', KEYS[5], unpack(warm, 1, count))
  end
  s.due = math.min(tonumber(call('ZRANGE', KEYS[4], '0', '0', 'WITHSCORES')[2] or never),
    tonumber(call('ZRANGE', KEYS[5], '0', '0', 'WITHSCORES')[2] or never))
end

if now >= s.due then
  drop()
end
