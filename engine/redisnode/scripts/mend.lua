#!lua
-- mend puts a lease on the slots and fence that a majority agrees on; see engine.Mend.
--
-- KEYS    node, semaphore, used, ends, cooling
-- ARGV    head, at, lease, then as below; ballots are "counter replica", ttl and before are in µs
-- replies "<says> <time> <more> <slots> <fence> <ver> <expiry> <ballot> <free>"
--
-- with now text admit slots seek sets lease semaphore line tombstones grant tell end

local by, gen, nonce, info, ver, slots, fence, under, ttl, first, before, new = unpack(ARGV, 4)
local retry = new == '1' and gen ~= '0'

-- yields reports whether the record that is there gives way to the mend.
local function yields()
  if own.by ~= by or tonumber(own.ver) > tonumber(ver) or smaller(gen, nonce, own.gen, own.nonce) then
    return false
  end
  return tonumber(own.ver) < tonumber(ver) or own.slots == slots or new == '0' and gen == '0'
end

-- move puts the record on the slots. What the mend of a lease that may be granted takes away from it cools.
local function move()
  if new == '0' then
    own.fence = fence
  elseif own.slots == slots and own.copy == '0' then
    own.fence = tonumber(own.fence) > tonumber(fence) and own.fence or fence
  else
    own.fence = next_fence(fence)
  end
  local added, lost = minus(slots, own.slots), minus(own.slots, slots)
  if added ~= '' then
    occupy(added)
  end
  if lost ~= '' then
    let_go(lease, lost, own.granted, new == '0' or retry)
  end
  own.slots, own.ver, own.gen, own.nonce, own.ballot, own.info = slots, ver, gen, nonce, under, info
  own.first, own.copy, own.touched = first, '0', stamp
end

-- place makes the record.
local function place()
  own = {
    expiry = '0', fence = new == '1' and next_fence(fence) or fence, ver = ver, slots = slots, by = by, gen = gen, nonce = nonce,
    ballot = under, first = first, copy = '0', granted = stamp, touched = stamp, info = info,
  }
  occupy(slots)
end

local function decide()
  if now >= tonumber(before) or barred(by, gen, nonce) or own and not yields() then
    return 'no'
  elseif retry and ballot ~= under then
    return 'ballot'
  elseif retry and tonumber(match(slots, '%d+$')) >= limit then
    return 'over'
  elseif retry and own and minus(slots, own.slots) ~= '' then
    return 'no'
  elseif taken(own and minus(slots, own.slots) or slots) then
    if own and new == '1' and not retry and tonumber(own.ver) < tonumber(ver) and own.slots ~= slots then
      call('ZREM', KEYS[4], lease)
      call('HDEL', KEYS[2], 'lease:' .. lease)
      vacate(own.slots)
      own = false
    end
    return 'no'
  end
  if own then
    move()
  else
    place()
  end
  raise(own.fence)
  lengthen(own, ttl)
  put('lease:' .. lease, inscribe(own))
  return 'mended'
end

return finish(decide()) .. ' ' .. tell_lease(own, ballot, limit)
