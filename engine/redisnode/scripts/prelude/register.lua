-- A register: the definition of a semaphore, or a value of the cluster, which is kept like one that nobody claims.

local promise = call('HGET', KEYS[2], 'promise') or '0 '
local largest = smaller(promise, s.ballot) and s.ballot or promise -- a later ballot has to exceed it

-- value returns the reply with the accepted value.
local function value(says)
  return { finish(says), read[1] or '', call('HGET', KEYS[2], 'data') or '' }
end
