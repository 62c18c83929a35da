#!lua
-- prepare is the first half of a change of a register; see engine.Prepare.
--
-- KEYS    node, semaphore or register, used, ends, cooling, names, deleted
-- ARGV    head, at, '', ballot ("counter replica")
-- replies "<says> <time> <more>", then the definition and its data as in semaphore.lua; of no, the promise
--
-- with now text admit slots lease twice semaphore line end register

if not smaller(largest, ARGV[4]) then
  return { finish('no'), largest }
end
set[#set + 1], set[#set + 2] = 'promise', ARGV[4]
return value('promised')
