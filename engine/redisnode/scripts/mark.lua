#!lua flags=allow-oom
-- mark makes the node remember that another is of a larger era; see engine.Mark.
--
-- KEYS    node
-- ARGV    head, at, the other's index, era, token ("counter replica")
-- replies "<says> <time> <more>" and the fields of the record with their values
--
-- with now text admit record

local other, era, token = unpack(ARGV, 3)
local known = {}
for mine in gmatch(r.known, '%d+') do
  known[#known + 1] = mine
end
local mine = known[other + 1]
if not mine or other == r.index or tonumber(mine) > tonumber(era) then
  return reply('no')
end
if mine == era then
  return reply(call('HGET', KEYS[1], 'mark:' .. other) == era .. ' ' .. token and 'done' or 'no')
end
known[other + 1] = era
write({ known = table.concat(known, ','), ['mark:' .. other] = era .. ' ' .. token })
return reply('done')
