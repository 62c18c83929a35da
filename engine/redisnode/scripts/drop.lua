#!lua flags=allow-oom
-- drop removes a deleted register where nothing is held, cools or waits; see engine.Drop. While a cold start is waited out
-- nobody knows what is held: nothing is dropped.
--
-- KEYS    node, semaphore or register, used, ends, cooling, names
-- ARGV    head, at, '', ballot ("counter replica")
-- replies "<says> <time> <more>"
--
-- with now text admit slots lease semaphore line end

if not read[1] or defined or ballot ~= ARGV[4] or places[1] or now < wait or call('EXISTS', KEYS[4], KEYS[5]) > 0 then
  return { finish('no') }
end
local answer = finish('done')
if last_fence > tonumber(node[2] or 0) then
  call('HSET', KEYS[1], 'floor', read[2])
end
call('UNLINK', KEYS[2], KEYS[3]) -- it is not among the names: it is deleted
return { answer }
