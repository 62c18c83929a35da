#!lua flags=allow-oom
-- drop_blob forgets a blob.
--
-- KEYS    node, blob, the set of all sums
-- ARGV    head, at, sum
-- replies "<says> <time> <more>"
--
-- with now admit

call('UNLINK', KEYS[2])
call('SREM', KEYS[3], ARGV[3])
return 'done ' .. stamp .. ' 0'
