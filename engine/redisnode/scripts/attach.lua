#!lua flags=allow-oom
-- attach makes another replica's request the owner of a lease; see engine.Attach.
--
-- KEYS    node, semaphore, used, ends, cooling, tombstones (two)
-- ARGV    head, at, lease, then as below; owners are "gen nonce", left is in µs or "never"
-- replies "<says> <time> <more> <slots> <fence> <ver> <expiry> <ballot> <free>"
--
-- with now text admit slots lease twice semaphore line tombstones grant tell end

local by, owner, slots, ver, left = unpack(ARGV, 4)
if twice then
  own, id = twice.attempt(own, lease, by)
end

local function decide()
  if not own or own.by ~= by or barred(by, owner) then
    return 'no'
  elseif smaller(owner, own.owner) then
    return 'moved'
  elseif own.copy == '1' or own.ver ~= ver or own.slots ~= slots or twice and twice.contested(slots) then
    return 'no'
  end
  own.owner = owner
  keep(own, left)
  return 'attached'
end

return finish(decide()) .. ' ' .. tell_lease(own, s.ballot, s.limit)
