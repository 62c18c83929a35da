#!lua flags=allow-oom
-- blobs lists the sums of all blobs.
--
-- KEYS    node, the set of all sums
-- ARGV    head, at
-- replies "<says> <time> <more>" and the sums
--
-- with now admit

local reply = call('SMEMBERS', KEYS[2])
table.sort(reply)
table.insert(reply, 1, 'done ' .. stamp .. ' 0')
return reply
