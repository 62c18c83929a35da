#!lua flags=allow-oom
-- renew lengthens a lease; see engine.Renew.
--
-- KEYS    node, semaphore, used, ends, cooling, tombstones (two)
-- ARGV    head, at, lease, then as below; owners are "gen nonce", ballots "counter replica", before and ttl are in µs
-- replies "<says> <time> <more> <slots> <fence> <ver> <expiry> <ballot> <free>"
--
-- with now text admit slots seek sets lease twice semaphore line tombstones grant tell end

local by, owner, ver, slots, fence, ballot, before, ttl = unpack(ARGV, 4)
if twice then
  own, id = twice.attempt(own, lease, by)
end

local function decide()
  if now >= tonumber(before) or barred(by, owner) or own and (own.by ~= by or tonumber(own.ver) > tonumber(ver)) then
    return 'no'
  elseif own and smaller(owner, own.owner) then
    return 'moved'
  elseif not own or tonumber(own.ver) < tonumber(ver) or minus(slots, own.slots) ~= '' then
    return 'missing'
  elseif twice and twice.contested(slots) then
    return 'no'
  end
  local lost = minus(own.slots, slots)
  if lost ~= '' then
    let_go(lost, lease, own.granted, true)
  end
  own.slots, own.fence, own.owner, own.ballot, own.first, own.copy = slots, fence, owner, ballot, '0', '0'
  if tonumber(fence) > tonumber(s.fence) then
    s.fence = fence
  end
  keep(own, ttl)
  return 'renewed'
end

return finish(decide()) .. ' ' .. tell_lease(own, s.ballot, s.limit)
