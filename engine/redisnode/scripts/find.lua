#!lua flags=allow-oom
-- find reads a lease with its tombstones.
--
-- KEYS    node, semaphore, used, ends, cooling, tombstones (two)
-- ARGV    head, at, lease
-- replies "<says> <time> <more> <how many further attempts>", the record or '', those of further attempts, and of each tombstone "by until any owner why since"
--
-- with now text admit slots lease twice semaphore line tombstones end

local reply = { '', own and inscribe(own) or '' }
local further = twice and twice.all(lease) or {}
for i = 1, #further do
  reply[i + 2] = further[i]
end
for i = 1, #stones do
  local stone = stones[i]
  reply[#reply + 1] = stone.by .. ' ' .. stone.over .. ' ' .. stone.any .. ' ' .. stone.owner .. ' ' .. stone.why .. ' ' .. stone.since
end
reply[1] = finish('done') .. ' ' .. #further
return reply
