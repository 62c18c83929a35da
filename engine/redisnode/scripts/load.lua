#!lua flags=allow-oom
-- load lays an identity down beside what the node has; see engine.Load.
--
-- KEYS    node
-- ARGV    token ("counter replica"), run_id, "n index known cluster"
-- replies "<says> <time> <more>" and the fields of the record with their values
--
-- with now text record

if not frozen_by(ARGV[1], ARGV[2]) then
  return reply('no')
end
write({ pending = ARGV[1] .. ' ' .. ARGV[3] })
return reply('done')
