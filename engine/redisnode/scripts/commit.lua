#!lua flags=allow-oom
-- commit switches to what load laid down. From then on every fence is larger than the node's time: what it granted and
-- forgot was smaller.
--
-- KEYS    node
-- ARGV    token ("counter replica"), run_id
-- replies "<says> <time> <more>" and the fields of the record with their values
--
-- with now text record

local token, asked_run_id = ARGV[1], ARGV[2]

if r.state == 'ok' and r.token == token and r.run_id == asked_run_id and run_id == asked_run_id then
  return reply('done') -- again
end
local counter, replica, n, index, known, cluster = match(r.pending or '', '^(%d+) (%S*) (%d+) (%d+) (%S+) (%S*)$')
if not frozen_by(token, asked_run_id) or not counter or counter .. ' ' .. replica ~= token then
  return reply('no')
end
write({
  state = 'ok', ever_ok = '1', cluster = cluster, n = n, index = index, known = known,
  floor = format('%.0f', math.max(r.floor or 0, now)),
})
call('HDEL', KEYS[1], 'pending')
return reply('done')
