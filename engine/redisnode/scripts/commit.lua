#!lua flags=allow-oom
-- commit switches to what load laid down. From then on every fence is larger than the node's time: what it granted and
-- forgot was smaller. Keys of another era than the node's own are removed later, by note.
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
local by, n, index, known, cluster, wait, pages, complete = match(r.pending or '', '^(%d+ %S*) (%d+) (%d+) (%S+) (%S*) (%d+) (%d+) (%d)$')
if not frozen_by(token, asked_run_id) or by ~= token or complete ~= '1' then
  return reply('no')
end
local loaded_floor = pages ~= '0' and call('HGET', KEYS[1], 'pending_floor') or 0
write({
  state = 'ok', reason = '', ever_ok = '1', cluster = cluster, n = n, index = index, known = known,
  floor = format('%.0f', math.max(r.floor or 0, now, loaded_floor)),
})
if wait == '0' then
  call('HDEL', KEYS[1], 'wait')
else
  call('HSET', KEYS[1], 'wait', wait)
end
if pages ~= '0' then -- the tombstones begin anew, with those that were loaded
  call('HSET', KEYS[1], 'short', '0 ' .. stamp, 'long', '0 ' .. stamp, 'old', '0')
end
call('HDEL', KEYS[1], 'pending', 'pending_floor')
for i = 0, n - 1 do -- its clock may be another now
  call('HDEL', KEYS[1], 'mark:' .. format('%d', i), 'offset:' .. format('%d', i))
end
return reply('done')
