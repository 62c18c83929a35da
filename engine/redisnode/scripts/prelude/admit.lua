-- Steps 1 to 3 of every operation (quorum.md section 2): whether the node is asked as the one it is, whether somebody's
-- eras are behind, whether the attempt's time is over.
--
-- KEYS[1]  the node record
-- ARGV[1]  what its head must be: "ok <index> <eras, by commas> <cluster>"
-- ARGV[2]  the sender's estimate of this clock at the start of the attempt, µs; 0: not checked
-- replies  "out <time> <state> <reason>", "stale <time> <eras>" or "late <time>", else goes on

local node = call('HMGET', KEYS[1], 'head', 'floor', 'short', 'long', 'wait')

if node[1] ~= ARGV[1] then
  local head = '^(%S+) (%d+) (%S*) (%S*)$'
  local state, index, eras, cluster = match(node[1] or '', head)
  local _, asked_index, asked_eras, asked_cluster = match(ARGV[1], head)
  local reason
  if not state then
    reason = 'no record'
  elseif asked_cluster ~= cluster then
    reason = 'another cluster'
  elseif asked_index ~= index then
    reason = 'another index'
  end
  if state and state ~= 'ok' then
    reason = call('HGET', KEYS[1], 'reason') or ''
  end
  if reason then
    return 'out ' .. stamp .. ' ' .. (state or '') .. ' ' .. reason
  end

  -- The vectors differ, if only in length. A node never takes its own era from a sender.
  local theirs, merged = {}, {}
  for era in gmatch(asked_eras, '%d+') do
    theirs[#theirs + 1] = era
  end
  for mine in gmatch(eras, '%d+') do
    local era = theirs[#merged + 1] or '0'
    if tonumber(mine) > tonumber(era) or #merged == tonumber(index) and mine ~= era then
      return 'stale ' .. stamp .. ' ' .. eras
    end
    merged[#merged + 1] = era
  end
  merged = table.concat(merged, ',')
  call('HSET', KEYS[1], 'known', merged, 'head', 'ok ' .. index .. ' ' .. merged .. ' ' .. cluster)
end

-- late reports whether the time is over of an attempt that began at a time.
local function late(at)
  at = tonumber(at)
  return at > 0 and (now < at - 50000 or now > at + 5000000)
end

if late(ARGV[2]) then
  return 'late ' .. stamp
end
