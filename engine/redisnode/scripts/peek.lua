#!lua flags=allow-oom
-- peek reads a register without a promise.
--
-- KEYS    node, semaphore or register, used, ends, cooling, names, deleted
-- ARGV    head, at, ''
-- replies "<says> <time> <more>", then the definition and its data as in semaphore.lua
--
-- with now text admit slots lease twice semaphore line end register

return value('done')
