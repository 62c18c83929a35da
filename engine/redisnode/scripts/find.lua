#!lua flags=allow-oom
-- find reads a lease with its tombstones.
--
-- KEYS    node, semaphore, used, ends, cooling
-- ARGV    head, at, lease
-- replies "<says> <time> <more>", the record or '', and of each tombstone "by until any gen nonce why"
--
-- with now text admit slots lease semaphore line tombstones end

local reply = { '', own and inscribe(own) or '' }
for i = 1, #stones do
  local s = stones[i]
  reply[i + 2] = s.by .. ' ' .. s.over .. ' ' .. s.any .. ' ' .. s.gen .. ' ' .. s.nonce .. ' ' .. s.why
end
reply[1] = finish('done')
return reply
