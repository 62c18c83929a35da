#!lua flags=allow-oom
-- names lists the semaphores that have a definition, or those whose definition is deleted, in the order of their bytes.
--
-- KEYS    node, names or deleted
-- ARGV    head, at, the range as ZRANGEBYLEX takes it: min, max, and count
-- replies "<says> <time> <more>" and the names
--
-- with now admit

local reply = call('ZRANGEBYLEX', KEYS[2], ARGV[3], ARGV[4], 'LIMIT', '0', ARGV[5])
table.insert(reply, 1, 'done ' .. stamp .. ' 0')
return reply
