#!lua
-- accept is the second half of a change of a register; see engine.Accept.
--
-- KEYS    node, semaphore or register, used, ends, cooling, names
-- ARGV    head, at, '', ballot ("counter replica"), the definition as in semaphore.lua less the ballot, data, whether it is a
--         semaphore's (1 or 0), name
-- replies "<says> <time> <more>"; of no, then the promise
--
-- with now text admit slots lease semaphore line end register

local asked, what, data, is_semaphore, name = unpack(ARGV, 4)

if exceeds(largest, asked) then
  return { finish('no'), largest }
end
put('promise', asked)
put('definition', asked .. ' ' .. what)
put('data', data)

limit, hold, paused, deleted = match(what, '^(%d+) (%d+) (%d) (%d)$')
defined = deleted == '0'
limit = defined and tonumber(limit) or 0
if is_semaphore == '1' then
  if defined then
    call('ZADD', KEYS[6], '0', name)
  else
    call('ZREM', KEYS[6], name)
  end
end
wake_head('')
return { finish('accepted') }
