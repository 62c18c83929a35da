-- The semaphore that the operation names, and step 4: what is over there is dropped, at most 1,000 entries or 10,000
-- slots, but always one.
--
-- KEYS[2]  the semaphore, a hash:
--            definition  "counter replica limit hold paused deleted", as accepted; hold is min_hold in µs
--            data        the rest of the definition
--            promise     "counter replica"
--            fence       the last fence
--            longest     the longest TTL, µs
--            wait        the end of the wait after a cold start, µs
--            used, top   how many slots are in use; all of them are smaller than top
--            line        the places: see line.lua
--            cools       1 if something cools
--            lease:<id>  a lease: see lease.lua
-- KEYS[3]  the bitmap of the slots that are in use
-- KEYS[4]  the leases, sorted by expiry, those without at 2^53
-- KEYS[5]  what cools, "<slots> <lease>", sorted by when it is over
-- ARGV[3]  the lease that the operation names, if it names one

local lease = ARGV[3]
local prefix = KEYS[1]:sub(1, -5) -- less "node"
local read = call('HMGET', KEYS[2], 'definition', 'fence', 'used', 'top', 'longest', 'wait', 'line', 'cools', 'lease:' .. lease)

local ballot, limit, hold, paused, deleted = '0 ', 0, 0, '0', '1'
if read[1] then
  ballot, limit, hold, paused, deleted = match(read[1], '^(%d+ %S*) (%d+) (%d+) (%d) (%d)$')
end
local defined = deleted == '0'
limit, hold = defined and tonumber(limit) or 0, defined and tonumber(hold) or 0
local last_fence, used, top = tonumber(read[2] or 0), tonumber(read[3] or 0), tonumber(read[4] or 0)
local longest, wait = tonumber(read[5] or 0), tonumber(read[6] or 0)
local cools = read[8]
local own = read[9] and parse(read[9]) -- the record of the lease; false: there is none

local set = {}        -- what is to be written to the hash, fields and values by turns
local freed           -- the smallest slot that became free; nil: none did
local stirred = false -- slots became free or a place lapsed, and nobody was woken yet
local more = '0'      -- 1: more is due to be dropped

-- put has a field written in the end.
local function put(field, value)
  set[#set + 1] = field
  set[#set + 1] = value
end

-- free counts the free slots below bound, which is at most the limit.
local function free(bound)
  return bound - (top > bound and tally(bound) or used)
end

-- vacate frees slots.
local function vacate(slots)
  paint(slots, 0)
  used = used - size(slots)
  local first = tonumber(match(slots, '^%d+'))
  if not freed or first < freed then
    freed = first
  end
  stirred = true
end

-- let_go frees slots that a lease had, or lets them cool until granted + min_hold if they may.
local function let_go(id, slots, granted, may_cool)
  local over = granted + hold
  if may_cool and over > now then
    call('ZADD', KEYS[5], format('%.0f', over), slots .. ' ' .. id)
    if not cools then
      cools = '1'
      put('cools', cools)
    end
  else
    vacate(slots)
  end
end

local dropped, dropped_slots = 0, 0

-- may_drop counts what is dropped, and reports whether there is room for it.
local function may_drop(slots)
  if dropped > 0 and (dropped >= 1000 or dropped_slots + slots > 10000) then
    more = '1'
    return false
  end
  dropped, dropped_slots = dropped + 1, dropped_slots + slots
  return true
end

local lapsed = call('ZRANGEBYSCORE', KEYS[4], '-inf', stamp, 'LIMIT', '0', '1001')
if lapsed[1] then
  local fields, count = {}, 0
  for i = 1, #lapsed do
    fields[i] = 'lease:' .. lapsed[i]
  end
  local records = call('HMGET', KEYS[2], unpack(fields))
  for i = 1, #lapsed do
    local l = parse(records[i])
    if not may_drop(size(l.slots)) then
      break
    end
    count = i
    let_go(lapsed[i], l.slots, l.granted, true)
    if lapsed[i] == lease then
      own = false
    end
  end
  call('ZREM', KEYS[4], unpack(lapsed, 1, count))
  call('HDEL', KEYS[2], unpack(fields, 1, count))
end

if cools then
  local warm, count = call('ZRANGEBYSCORE', KEYS[5], '-inf', stamp, 'LIMIT', '0', '1001'), 0
  for i = 1, #warm do
    local slots = match(warm[i], '^%S+')
    if not may_drop(size(slots)) then
      break
    end
    count = i
    vacate(slots)
  end
  if count > 0 then
    call('ZREM', KEYS[5], unpack(warm, 1, count))
    if call('EXISTS', KEYS[5]) == 0 then
      cools = false
      call('HDEL', KEYS[2], 'cools')
    end
  end
end
