#!lua
-- claim asks for slots for a lease; the rules and their order are at engine.Claim.
--
-- KEYS    node, semaphore, used, ends, cooling, tombstones (two)
-- ARGV    as in turn.lua, of each claim as below; owners are "gen nonce", ballots "counter replica", orders "arrival seq replica", ttl
--         is in µs
-- replies "<says> <time> <more> <slots> <fence> <ver> <expiry> <ballot> <free> <place> <elsewhere> <before> <behind>
--         <next end> <beyond>"
--
-- with now text admit slots seek sets lease twice semaphore line tombstones bury grant pick tell end
-- in turn with line release

local by, owner, info, weight, ttl, proposed, start, asked, named, waits, order, replica, mode, was, place, next_place = ...
if twice then
  own, id = twice.attempt(own, lease, by)
end
local bound = named == '0' and s.limit or math.min(s.limit, named)
local over = s.used > below(s.limit) -- a slot is in use at or beyond the limit
local behind                         -- the place that this claim is behind

-- before returns the first place before this claim that counts, and the weight of all who wait at such replicas.
local function before()
  local head, total = nil, 0
  for i = 1, #line.places do
    local p = line.places[i]
    if not line.precedes(p, order) then
      break
    elseif line.counts(p) then
      head, total = head or p, total + p.total
    end
  end
  return head, total
end

local function decide()
  if not s.defined then
    return 'undefined'
  elseif barred(by, owner) then
    return 'gone'
  elseif own and own.by ~= by then
    return 'exists'
  elseif own and own.copy == '0' then
    return 'granted'
  elseif named ~= '0' and asked ~= s.ballot then
    return 'ballot'
  elseif named == '0' and over then
    return 'over'
  elseif s.paused then
    return 'paused'
  elseif s.wait and now < s.wait then
    return 'full'
  end
  local want, free = tonumber(weight), bound - below(bound)
  if line then
    local head, total = before()
    if total > 0 and free < want + total then
      behind = head
      return 'behind'
    end
  end
  if own then -- a copy: a vote from now on
    if tonumber(match(own.slots, '%d+$')) >= bound or twice and twice.contested(own.slots) then
      return 'full'
    end
    own.fence, own.copy, own.ballot, own.touched = next_fence(proposed), '0', s.ballot, stamp
  elseif free < want then
    return 'full'
  else
    own = {
      fence = next_fence(proposed), ver = '0', slots = pick(start % bound, bound, want), by = by, owner = owner, ballot = s.ballot,
      first = '1', copy = '0', granted = stamp, touched = stamp, info = info,
    }
    occupy(own.slots)
  end
  keep(own, ttl)
  return 'granted'
end

local says = decide()
local refused = says == 'full' or says == 'behind' or says == 'paused' or says == 'over'
if says == 'granted' then
  state(replica, '3', '', next_place)
elseif refused and waits == '1' then
  state(replica, mode, was, place)
end
if line then
  line.wake('')
end

-- How long it is until a wait ends, else until the next end of a lease, of cooling, or until the place before is passed over, µs.
local next_end = ''
if refused then
  local first = math.min(tonumber(call('ZRANGE', KEYS[4], '0', '0', 'WITHSCORES')[2] or never),
    tonumber(call('ZRANGE', KEYS[5], '0', '0', 'WITHSCORES')[2] or never))
  if behind then
    local _, head = line.of(behind.replica)
    if head and head.order == behind.order and head.passed then
      first = math.min(first, head.passed)
    end
  end
  if s.wait and now < s.wait then
    first = s.wait
  end
  next_end = first < never and format('%.0f', math.max(0, first - now)) or ''
end

local beyond = {}
if s.defined and over then
  local first = seek(1, s.limit, s.top)
  while first < s.top do
    local last = seek(0, first, s.top) - 1
    beyond[#beyond + 1] = first
    beyond[#beyond + 1] = last
    first = seek(1, last + 1, s.top)
  end
end

return finish(says) .. ' ' .. tell_lease(own, says == 'granted' and own.ballot or s.ballot, bound) .. ' ' ..
  (line and line.tell(replica, order) or none .. ' 0 0') .. ' ' .. (behind and behind.order or none) .. ' ' .. next_end .. ' ' ..
  (over and join(beyond) or '')
