#!lua flags=allow-oom
-- drop removes a deleted register where nothing is held, cools or waits; see engine.Drop. While a cold start is waited out
-- nobody knows what is held: nothing is dropped. Nor is it while a larger ballot is promised: a promise that is forgotten would
-- let a smaller one be chosen before that one is accepted.
--
-- KEYS    node, semaphore or register, used, ends, cooling, names, deleted
-- ARGV    head, at, '', ballot ("counter replica"), whether it is a semaphore's (1 or 0)
-- replies "<says> <time> <more>"; of no, then the promise
--
-- with now text admit slots lease twice semaphore line end register

local held = line and line.places[1] or call('EXISTS', KEYS[4], KEYS[5]) > 0
if not read[1] or s.defined or s.ballot ~= ARGV[4] or largest ~= s.ballot or held or s.wait and now < s.wait then
  return { finish('no'), largest }
end
local answer = finish('done')
if tonumber(s.fence) > tonumber(node[2] or 0) then
  call('HSET', KEYS[1], 'floor', s.fence)
end
call('UNLINK', KEYS[2], KEYS[3])
if ARGV[5] == '1' then
  call('ZREM', KEYS[7], match(KEYS[2], '^%d+:(.*)$', #KEYS[1] + 1)) -- the name; see accept.lua
end
return { answer }
