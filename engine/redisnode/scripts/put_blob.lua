#!lua
-- put_blob keeps a piece of a blob. A blob is a hash of its pieces by their number; n is how many there are in the whole. Until
-- all are there it is not in the set, and expires.
--
-- KEYS    node, blob, the set of all sums
-- ARGV    head, at, sum, piece, pieces, data, how long pieces of it are kept: ms
-- replies "<says> <time> <more>"
--
-- with now admit

call('HSET', KEYS[2], ARGV[4], ARGV[6], 'n', ARGV[5])
if call('HLEN', KEYS[2]) > tonumber(ARGV[5]) then
  call('PERSIST', KEYS[2])
  call('SADD', KEYS[3], ARGV[3])
else
  call('PEXPIRE', KEYS[2], ARGV[7])
end
return 'done ' .. stamp .. ' 0'
