#!lua flags=allow-oom
-- attach makes another replica's request the owner of a lease; see engine.Attach.
--
-- KEYS    node, semaphore, used, ends, cooling
-- ARGV    head, at, lease, then as below; left is in µs or "never"
-- replies "<says> <time> <more> <slots> <fence> <ver> <expiry> <ballot> <free>"
--
-- with now text admit slots lease semaphore line tombstones grant tell end

local by, gen, nonce, slots, ver, left = unpack(ARGV, 4)

local function decide()
  if not own or own.by ~= by or barred(by, gen, nonce) then
    return 'no'
  elseif smaller(gen, nonce, own.gen, own.nonce) then
    return 'moved'
  elseif own.copy == '1' or own.ver ~= ver or own.slots ~= slots then
    return 'no'
  end
  own.gen, own.nonce = gen, nonce
  lengthen(own, left)
  put('lease:' .. lease, inscribe(own))
  return 'attached'
end

return finish(decide()) .. ' ' .. tell_lease(own, ballot, limit)
