#!lua flags=allow-oom
-- line states the replica's place and wakes the head of the line if it fits, also where it is the place just stated:
-- what freed a permit between its refusal and now did not know of it.
--
-- KEYS    node, semaphore, used, ends, cooling, tombstones (two)
-- ARGV    as in turn.lua, of each line, whose lease is '', as below
-- replies "<says> <time> <more> <place> <elsewhere> <before> <free>"
--
-- with now text admit slots seek lease twice semaphore line tombstones end
-- in turn

local replica, mode, was, place = ...

state(replica, mode, was, place)
if line then
  line.stated = none
  line.wake('')
end
local free = format('%d', s.limit - below(s.limit))
return finish('done') .. ' ' .. (line and line.tell(replica) or none .. ' 0 0') .. ' ' .. free
