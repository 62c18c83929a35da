-- Where tombstones are written.

local minute, hour = 60000000, 3600000000 -- µs: the life of the longest tombstone of each kind, and of a generation

-- plot returns the hash that tombstones of a kind are written to now, after the generations have moved on if it is time.
local function plot(kind, written, life)
  local generation, since = match(written or '', '^(%d) (%d+)$')
  if not since or now < tonumber(since) then -- the first one, or the clock was set back
    generation = generation or '0'
    call('HSET', KEYS[1], kind, generation .. ' ' .. stamp)
  elseif now - since >= life then
    generation = 1 - generation
    call('UNLINK', prefix .. 'gone:' .. kind .. ':' .. generation)
    call('HSET', KEYS[1], kind, generation .. ' ' .. stamp)
  end
  return prefix .. 'gone:' .. kind .. ':' .. generation
end

-- bury writes the tombstone of an attempt, for life µs. With one that is there it bars what either of them bars, for as long
-- as either of them does, and keeps the reason that was told first. All of a lease are in one place.
local function bury(by, gen, nonce, any, why, life)
  local stone
  local latest = now + life
  for i = 1, #stones do
    latest = math.max(latest, stones[i].over)
    if stones[i].by == by then
      stone = stones[i]
    end
  end
  if not stone then
    stone = { by = by, over = 0, any = '0', gen = gen, nonce = nonce, why = why }
    stones[#stones + 1] = stone
  end
  stone.over = format('%.0f', math.max(stone.over, now + life))
  if any == '1' then
    stone.any = '1'
  end
  if smaller(stone.gen, stone.nonce, gen, nonce) then
    stone.gen, stone.nonce = gen, nonce
  end

  local texts = {}
  for i = 1, #stones do
    local s = stones[i]
    texts[i] = s.by .. ' ' .. s.over .. ' ' .. s.any .. ' ' .. s.gen .. ' ' .. s.nonce .. ' ' .. s.why
  end
  local key
  if latest - now > minute then
    key = plot('long', node[4], hour)
  else
    key = plot('short', node[3], minute)
  end
  for i = 1, #plots do
    if plots[i] ~= key then
      call('HDEL', plots[i], grave)
    end
  end
  call('HSET', key, grave, table.concat(texts, ','))
end
