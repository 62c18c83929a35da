#!lua flags=allow-oom
-- line states the replica's place and wakes the head of the line if it fits, also where it is the place just stated:
-- what freed a permit between its refusal and now did not know of it.
--
-- KEYS    node, semaphore, used, ends, cooling
-- ARGV    head, at, '', then as below
-- replies "<says> <time> <more> <place> <elsewhere> <before> <free>"
--
-- with now text admit slots lease twice semaphore line end

local replica, mode, was, place = unpack(ARGV, 4)

state(replica, mode, was, place)
if line then
  line.stated = none
  line.wake('')
end
local free = format('%d', s.limit - below(s.limit))
return finish('done') .. ' ' .. (line and line.tell(replica) or none .. ' 0 0') .. ' ' .. free
