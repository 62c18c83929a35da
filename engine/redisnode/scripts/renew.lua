#!lua flags=allow-oom
-- renew lengthens a lease; see engine.Renew.
--
-- KEYS    node, semaphore, used, ends, cooling
-- ARGV    head, at, lease, then as below; ballots are "counter replica", before and ttl are in µs
-- replies "<says> <time> <more> <slots> <fence> <ver> <expiry> <ballot> <free>"
--
-- with now text admit slots seek sets lease semaphore line tombstones grant tell end

local by, gen, nonce, ver, slots, fence, under, before, ttl = unpack(ARGV, 4)

local function decide()
  if now >= tonumber(before) or barred(by, gen, nonce) or own and (own.by ~= by or tonumber(own.ver) > tonumber(ver)) then
    return 'no'
  elseif own and smaller(gen, nonce, own.gen, own.nonce) then
    return 'moved'
  elseif not own or tonumber(own.ver) < tonumber(ver) or minus(slots, own.slots) ~= '' then
    return 'missing'
  end
  local lost = minus(own.slots, slots)
  if lost ~= '' then
    let_go(lease, lost, own.granted, true)
  end
  own.slots, own.fence, own.gen, own.nonce, own.ballot = slots, fence, gen, nonce, under
  own.first, own.copy = '0', '0'
  raise(fence)
  lengthen(own, ttl)
  put('lease:' .. lease, inscribe(own))
  return 'renewed'
end

return finish(decide()) .. ' ' .. tell_lease(own, ballot, limit)
