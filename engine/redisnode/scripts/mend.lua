#!lua
-- mend puts a lease on the slots and fence that a majority agrees on; see engine.Mend.
--
-- KEYS    node, semaphore, used, ends, cooling, tombstones (two)
-- ARGV    head, at, lease, then as below; owners are "gen nonce", ballots "counter replica", ttl and before are in µs
-- replies "<says> <time> <more> <slots> <fence> <ver> <expiry> <ballot> <free>"
--
-- with now text admit slots seek sets lease twice semaphore line tombstones grant tell end

local by, owner, info, ver, slots, fence, ballot, ttl, first, before, new = unpack(ARGV, 4)
if twice then
  own, id = twice.attempt(own, lease, by)
end
local first_owner = match(owner, '^0 ')
local retry = new == '1' and not first_owner

-- yields reports whether the record that is there gives way to the mend.
local function yields()
  if own.by ~= by or tonumber(own.ver) > tonumber(ver) or smaller(owner, own.owner) then
    return false
  end
  return tonumber(own.ver) < tonumber(ver) or own.slots == slots or new == '0' and first_owner
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
    let_go(lost, lease, own.granted, new == '0' or retry)
  end
  own.slots, own.ver, own.owner, own.ballot, own.info = slots, ver, owner, ballot, info
  own.first, own.copy, own.touched = first, '0', stamp
end

-- place makes the record.
local function place()
  own = {
    fence = new == '1' and next_fence(fence) or fence, ver = ver, slots = slots, by = by, owner = owner, ballot = ballot,
    first = first, copy = '0', granted = stamp, touched = stamp, info = info,
  }
  occupy(slots)
end

-- drop forgets the record.
local function drop()
  local slots = own.slots
  own = forget()
  let_go(slots)
end

local function decide()
  if now >= tonumber(before) or barred(by, owner) or own and not yields() then
    return 'no'
  elseif retry and s.ballot ~= ballot then
    return 'ballot'
  elseif retry and tonumber(match(slots, '%d+$')) >= s.limit then
    return 'over'
  end
  local added = own and minus(slots, own.slots) or slots
  if retry and own and added ~= '' then
    return 'no'
  elseif taken(added) or twice and twice.contested(slots) then
    if own and new == '1' and not retry and tonumber(own.ver) < tonumber(ver) and own.slots ~= slots then
      drop()
    end
    return 'no'
  end
  if own then
    move()
  else
    place()
  end
  if tonumber(own.fence) > tonumber(s.fence) then
    s.fence = own.fence
  end
  keep(own, ttl)
  return 'mended'
end

return finish(decide()) .. ' ' .. tell_lease(own, s.ballot, s.limit)
