-- Where tombstones are written.

local minute, hour = 60000000, 3600000000 -- µs: the life of the longest tombstone of each kind, and of a generation

-- plot returns the hash that tombstones of a kind, whose field of the node is node[field], are written to now, after the generations
-- have moved on if it is time.
local function plot(kind, field, key, life)
  local generation, since = match(node[field] or '', '^(%d) (%d+)$')
  if not since or now < tonumber(since) then -- the first one, or the clock was set back
    generation, since = generation or '0', nil
  elseif now - since >= life then
    generation, since = generation == '0' and '1' or '0', nil
    call('UNLINK', key .. generation)
  end
  if not since then
    node[field] = generation .. ' ' .. stamp
    call('HSET', KEYS[1], kind, node[field])
  end
  return key .. generation
end

-- bury writes the tombstone of an attempt, for life µs. With one that is there it bars what either of them bars, for as long
-- as either of them does, and keeps the reason that was told first. All of a lease are in one place.
local function bury(by, owner, any, why, life)
  local stone
  local latest = now + life
  for i = 1, #stones do
    latest = math.max(latest, stones[i].over)
    if stones[i].by == by then
      stone = stones[i]
    end
  end
  if not stone then
    stone = { by = by, over = 0, any = any, owner = owner, why = why, since = stamp }
    stones[#stones + 1] = stone
  end
  stone.over = format('%.0f', math.max(stone.over, now + life))
  stone.any = any == '1' and any or stone.any
  stone.owner = smaller(stone.owner, owner) and owner or stone.owner

  local key
  if latest - now > minute then
    key = plot('long', 4, KEYS[6]:sub(1, -8) .. 'long:', hour)
  else
    key = plot('short', 3, KEYS[6]:sub(1, -2), minute)
  end
  for i = 1, #plots do
    if plots[i] ~= key then
      call('HDEL', plots[i], grave)
    end
  end
  local texts = {}
  for i = 1, #stones do
    local stone = stones[i]
    texts[i] = stone.by .. ' ' .. stone.over .. ' ' .. stone.any .. ' ' .. stone.owner .. ' ' .. stone.why .. ' ' .. stone.since
  end
  call('HSET', key, grave, table.concat(texts, ','))
end
