#!lua flags=allow-oom
-- release ends a lease, or gives a part of it back; see engine.Release.
--
-- KEYS    node, semaphore, used, ends, cooling
-- ARGV    head, at, lease, then as below; slots: empty for all; left is in µs or "never"
-- replies "<says> <time> <more> <slots> <fence> <ver> <expiry> <ballot> <free> <place> <elsewhere> <before>"
--
-- with now text admit slots seek sets lease semaphore line tombstones bury tell end

local by, gen, nonce, any, slots, ver, left, why, replica, follows, mode, was, place = unpack(ARGV, 4)
local cools = why ~= 'broken' and why ~= 'given!20back'

-- give_back takes the slots named away from the record, and reports whether none are left.
local function give_back()
  local rest = minus(own.slots, slots)
  local lost = minus(own.slots, rest)
  if lost ~= '' then
    let_go(lease, lost, own.granted, cools)
  end
  own.slots, own.ver = rest, ver
  return rest == ''
end

-- remembered is for how long the end of the lease is remembered, which could have run for left, by the record, µs.
local function remembered(own_left)
  if why ~= 'released' and why ~= 'broken' then
    return minute
  end
  local longest_left = left == 'never' and hour or tonumber(left)
  return math.min(math.max(minute, longest_left, own_left), hour)
end

local function decide()
  local mine = own and own.by == by -- another attempt's record stays
  if mine and any == '0' and smaller(gen, nonce, own.gen, own.nonce) then
    return 'kept'
  end
  local all = slots == ''
  if mine and not all and tonumber(own.ver) < tonumber(ver) then
    all = give_back()
    if not all then
      put('lease:' .. lease, inscribe(own))
    end
  end
  if all then
    local own_left = 0
    if mine then
      own_left = own.expiry == 'never' and hour or own.expiry - now
      call('ZREM', KEYS[4], lease)
      call('HDEL', KEYS[2], 'lease:' .. lease)
      if own.slots ~= '' then
        let_go(lease, own.slots, own.granted, cools)
      end
      own = false
    end
    bury(by, gen, nonce, any, why, remembered(own_left))
  end
  state(replica, mode, was, place)
  return 'released'
end

local says = decide()
wake_head(follows == '1' and replica or '')
local stands, elsewhere, before = tell_own_line(replica)
return finish(says) .. ' ' .. tell_lease(own, ballot, limit) .. ' ' .. stands .. ' ' .. elsewhere .. ' ' .. before
