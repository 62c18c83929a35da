#!lua flags=allow-oom
-- note remembers what is known of the other nodes; see engine.Note.
--
-- KEYS    node
-- ARGV    head, at, the longest TTL in µs, then of each index by turns: its instance, "era nonce address" or '', and its offset, "lo hi era" in µs or ''
-- replies "<says> <time> <more>" and the fields of the record with their values
--
-- with now text admit record

local _, commas = r.known:gsub(',', '')
local fields = {}
for i = 4, math.min(#ARGV, 2 * commas + 5), 2 do
  local index = format('%d', (i - 4) / 2)
  local era, nonce = match(ARGV[i], '^(%d+) (%S*)')
  if era then
    local known = call('HGET', KEYS[1], 'instance:' .. index) or '0  '
    local known_era, known_nonce = match(known, '^(%d+) (%S*)')
    if tonumber(era) > tonumber(known_era) or era == known_era and nonce == known_nonce then
      fields['instance:' .. index] = ARGV[i]
    end
  end
  local lo, hi, of = match(ARGV[i + 1], '^(%S+) (%S+) (%S+)$')
  if lo then
    fields['offset:' .. index] = lo .. ' ' .. hi .. ' ' .. stamp .. ' ' .. of
  end
end
if tonumber(ARGV[3]) > tonumber(call('HGET', KEYS[1], 'longest') or 0) then
  fields.longest = ARGV[3]
end
if next(fields) then
  write(fields)
end

-- What a readmission has left behind is removed, a bit at each note: keys of other eras than the node's own. (Blobs have no era.)
local old = call('HGET', KEYS[1], 'old')
if old then
  local found, own_era, n = call('SCAN', old, 'COUNT', 2000), nil, 0
  for era in gmatch(r.known, '%d+') do
    own_era = n == tonumber(r.index) and era or own_era
    n = n + 1
  end
  local prefix = KEYS[1]:sub(1, -5)
  for _, key in ipairs(found[2]) do
    local kind, era = match(key, '^([%a-]+):(%d+)', #prefix + 1)
    if era and key:sub(1, #prefix) == prefix and kind ~= 'blob' and era ~= own_era then
      call('UNLINK', key)
    end
  end
  if found[1] == '0' then
    call('HDEL', KEYS[1], 'old')
  else
    call('HSET', KEYS[1], 'old', found[1])
  end
end
return reply('done')
