#!lua flags=allow-oom
-- release ends a lease, or gives a part of it back; see engine.Release. What it tells every replica is published as line.lua
-- publishes a wake, with the slot -1 and the lease before the name of the semaphore.
--
-- KEYS    node, semaphore, used, ends, cooling, tombstones (two)
-- ARGV    as in turn.lua, of each release as below; owners are "gen nonce"; slots: empty for all; left is in µs or "never"
-- replies "<says> <time> <more> <slots> <fence> <ver> <expiry> <ballot> <free> <place> <elsewhere> <before>"
--
-- with now text admit slots seek sets lease twice semaphore line tombstones bury tell end
-- in turn with line

local by, owner, any, slots, ver, left, why, replica, follows, tells, mode, was, place = ...
if twice then
  own, id = twice.attempt(own, lease, by)
end
local cools = why ~= 'broken' and why ~= 'given!20back'

-- remembered is for how long the end of the lease is remembered, µs. By the record it could have run for own_left.
local function remembered(own_left)
  if why ~= 'released' and why ~= 'broken' then
    return minute
  end
  return math.min(math.max(minute, left == 'never' and hour or left, own_left), hour)
end

-- give_back takes the slots named away from the record, and reports whether none are left.
local function give_back()
  local rest = minus(own.slots, slots)
  local lost = minus(own.slots, rest)
  if lost ~= '' then
    let_go(lost, lease, own.granted, cools)
  end
  own.slots, own.ver = rest, ver
  if rest == '' then
    return true
  end
  set[#set + 1], set[#set + 2] = 'lease:' .. id, inscribe(own)
  return false
end

-- ended is what is said to a release of what has no record, by the reason of its tombstone.
local function ended()
  for i = 1, #stones do
    local of = stones[i].by == by and stones[i].why
    if of == 'broken' and why == 'released' then
      return 'broken'
    elseif of == 'released' and why == 'broken' then
      return 'gone'
    end
  end
  return 'released'
end

local function decide()
  local mine = own and own.by == by -- another attempt's record stays
  if mine and any == '0' and smaller(owner, own.owner) then
    return 'kept'
  end
  local said = 'released'
  local all = slots == ''
  local changed = mine and (all or tonumber(own.ver) < tonumber(ver))
  if changed and not all then
    all = give_back()
  end
  if all then
    local own_left = 0
    if mine then
      own_left = own.expiry == 'never' and hour or own.expiry - now
      local ended = own
      own = forget()
      if ended.slots ~= '' then
        let_go(ended.slots, lease, ended.granted, cools)
      end
    end
    bury(by, owner, any, why, remembered(own_left))
    said = mine and said or ended()
  end
  if changed and tells == '1' then
    publish('*', '0 0 -1 0 ' .. lease)
  end
  state(replica, mode, was, place)
  if line and mode ~= '1' then
    line.stated = none -- of a waiter that is gone: whoever comes after it may well be woken
  end
  return said
end

local says = decide()
if line then
  line.wake(follows == '1' and replica or '')
end
return finish(says) .. ' ' .. tell_lease(own, s.ballot, s.limit) .. ' ' .. (line and line.tell(replica) or none .. ' 0 0')
