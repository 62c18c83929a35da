-- A register: the definition of a semaphore, or a value of the cluster, which is kept like one that nobody claims.

local promise = call('HGET', KEYS[2], 'promise') or '0 '
local largest = promise -- a later ballot has to exceed it

-- exceeds compares ballots, "counter replica".
local function exceeds(a, b)
  local counter_a, replica_a = match(a, '^(%d+) (%S*)$')
  local counter_b, replica_b = match(b, '^(%d+) (%S*)$')
  return smaller(counter_b, replica_b, counter_a, replica_a)
end

if exceeds(ballot, promise) then
  largest = ballot
end

-- value returns the reply with the accepted value.
local function value(says)
  return { finish(says), read[1] or '', call('HGET', KEYS[2], 'data') or '' }
end
