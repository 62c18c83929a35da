#!lua
-- accept is the second half of a change of a register; see engine.Accept. That it has changed is published to every replica, as
-- line.lua publishes a wake: with the name of the semaphore, or none.
--
-- KEYS    node, semaphore or register, used, ends, cooling, names, deleted
-- ARGV    head, at, '', ballot ("counter replica"), whether it is a semaphore's (1 or 0), the definition as in
--         semaphore.lua less the ballot, data
-- replies "<says> <time> <more>"; of no, then the promise
--
-- with now text admit slots lease twice semaphore line end register

local asked, is_semaphore, what, data = unpack(ARGV, 4)
local name = match(KEYS[2], '^%d+:(.*)$', #KEYS[1] + 1) -- after "<prefix>:sem:<era>:"; "<prefix>:sem:" is as long as "<prefix>:node"

if smaller(asked, largest) then
  return { finish('no'), largest }
end
local changed = asked ~= s.ballot
local limit, hold, paused, deleted = match(what, '^(%d+) (%d+) (%d) (%d)$')
s.defined, s.paused = deleted == '0', paused == '1'
s.limit, s.hold = s.defined and tonumber(limit) or 0, s.defined and tonumber(hold)
for field, value in pairs({ promise = asked, definition = asked .. ' ' .. what, data = data }) do
  set[#set + 1], set[#set + 2] = field, value
end
if is_semaphore == '1' then
  call('ZADD', KEYS[s.defined and 6 or 7], '0', name)
  call('ZREM', KEYS[s.defined and 7 or 6], name)
end
if line then
  line.wake('')
end
if changed then
  call('PUBLISH', KEYS[1]:sub(1, -5) .. 'wake:*', match(ARGV[1], '%d+') .. ' 0 0 0 0 ' .. (is_semaphore == '1' and name or ''))
end
return { finish('accepted') }
