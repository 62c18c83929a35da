#!lua flags=allow-oom
-- get_blob reads a piece of a blob that is there as a whole; see put_blob.lua.
--
-- KEYS    node, blob
-- ARGV    head, at, piece
-- replies "<says> <time> <more>"; of done, then the number of pieces, and the piece
--
-- with now admit

local blob = call('HMGET', KEYS[2], 'n', ARGV[3])
if not blob[2] or call('HLEN', KEYS[2]) <= tonumber(blob[1]) then
  return 'no ' .. stamp .. ' 0'
end
return { 'done ' .. stamp .. ' 0', blob[1], blob[2] }
