#!lua
-- claim asks for slots for a lease; the rules and their order are at engine.Claim.
--
-- KEYS    node, semaphore, used, ends, cooling
-- ARGV    head, at, lease, then as below; ballots are "counter replica", orders "arrival seq replica", ttl is in µs
-- replies "<says> <time> <more> <slots> <fence> <ver> <expiry> <ballot> <free> <place> <elsewhere> <before> <behind>
--         <next end> <beyond>"
--
-- with now text admit slots seek lease semaphore line tombstones grant pick tell end

local by, gen, nonce, info, weight, ttl, proposed, start, asked, named, waits, order, replica, mode, was, place, next_place =
  unpack(ARGV, 4)
weight = tonumber(weight)
local bound = named == '0' and limit or math.min(limit, named)
local over = top > limit and used - tally(limit) or 0 -- how many slots are in use at or beyond the limit

-- before returns the first place before this claim that counts, and the weight of all who wait at such replicas. One that
-- is passed over does not count, nor one that is heavier than the limit: it would block the line for ever.
local function before()
  local head, total = nil, 0
  for i = 1, #places do
    local p = places[i]
    if not precedes(p, order) then
      break
    end
    if p.weight <= limit and not passed_over(p) then
      head, total = head or p, total + p.total
    end
  end
  return head, total
end

-- grant makes the record.
local function grant()
  own = {
    expiry = '0', fence = next_fence(proposed), ver = '0', slots = pick(start % bound, bound, weight), by = by, gen = gen, nonce = nonce,
    ballot = ballot, first = '1', copy = '0', granted = stamp, touched = stamp, info = info,
  }
  raise(own.fence)
  occupy(own.slots)
  lengthen(own, ttl)
  put('lease:' .. lease, inscribe(own))
end

-- grant_copy makes a vote of a record that the node was only told of.
local function grant_copy()
  own.fence, own.copy, own.ballot, own.touched = next_fence(proposed), '0', ballot, stamp
  raise(own.fence)
  lengthen(own, ttl)
  put('lease:' .. lease, inscribe(own))
end

local behind -- the place that this claim is behind

local function decide()
  if not defined then
    return 'undefined'
  elseif barred(by, gen, nonce) then
    return 'gone'
  elseif own and own.by ~= by then
    return 'exists'
  elseif own and own.copy == '0' then
    return 'granted'
  elseif named ~= '0' and asked ~= ballot then
    return 'ballot'
  elseif named == '0' and over > 0 then
    return 'over'
  elseif paused == '1' then
    return 'paused'
  elseif now < wait then
    return 'full'
  end
  local room = free(bound)
  local head, total = before()
  if total > 0 and room < weight + total then
    behind = head
    return 'behind'
  elseif own then
    if tonumber(match(own.slots, '%d+$')) >= bound then
      return 'full'
    end
    grant_copy()
  elseif room < weight then
    return 'full'
  else
    grant()
  end
  return 'granted'
end

local says = decide()
local refused = says == 'full' or says == 'behind' or says == 'paused' or says == 'over'
if says == 'granted' then
  state(replica, '3', '', next_place)
elseif refused and waits == '1' then
  state(replica, mode, was, place)
end
wake_head('')

-- How long it is until the next end: of a lease, of cooling, of a wait, or until the place before is passed over.
local never, next_end = 9007199254740992, ''
if refused then
  local lease_end = tonumber(call('ZRANGE', KEYS[4], '0', '0', 'WITHSCORES')[2] or never)
  local cool_end = cools and tonumber(call('ZRANGE', KEYS[5], '0', '0', 'WITHSCORES')[2] or never) or never
  local _, head = place_of(behind and behind.replica)
  local first = math.min(lease_end, cool_end, now < wait and wait or never,
    head and head.order == behind.order and head.passed or never)
  next_end = first < never and format('%.0f', math.max(0, first - now)) or ''
end

local stands, elsewhere, ahead = tell_line(replica, order)
return finish(says) .. ' ' .. tell_lease(own, says == 'granted' and own.ballot or ballot, bound) .. ' ' .. stands .. ' ' .. elsewhere .. ' ' ..
  ahead .. ' ' .. (behind and behind.order or none) .. ' ' .. next_end .. ' ' .. (defined and over > 0 and beyond(limit) or '')
