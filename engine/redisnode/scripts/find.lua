#!lua flags=allow-oom
-- find reads a lease with its tombstones.
--
-- KEYS    node, semaphore, used, ends, cooling, tombstones (two)
-- ARGV    head, at, lease
-- replies "<says> <time> <more>", the record or '', and of each tombstone "by until any owner why since"
--
-- with now text admit slots lease semaphore line tombstones end

local reply = { '', own and inscribe(own) or '' }
for i = 1, #stones do
  local stone = stones[i]
  reply[i + 2] = stone.by .. ' ' .. stone.over .. ' ' .. stone.any .. ' ' .. stone.owner .. ' ' .. stone.why .. ' ' .. stone.since
end
reply[1] = finish('done')
return reply
