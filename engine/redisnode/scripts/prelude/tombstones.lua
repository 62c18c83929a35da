-- Tombstones: which attempts of the lease were given back. They are in hashes of the whole node, in two generations each
-- of those that live for up to 60 s (short) and up to an hour (long). A generation is unlinked when it is twice as old as
-- what is in it can get, so no million fields are freed at once.
--
-- KEYS[1]  has "short" and "long": "<which generation is written to, 0 or 1> <since when, µs>"
-- KEYS[6], KEYS[7]  the generations of the short ones, hashes: "<lease> <era>:<semaphore>" has "by until any owner why since" of each
--                   attempt, joined by commas; owner is "gen nonce". Those of the long ones: ":long:" for ":short:"

local grave  -- of the lease
local stones -- of the lease
local plots  -- where they were found

-- dig reads the tombstones in a generation.
local function dig(key)
  local text = call('HGET', key, grave)
  if text then
    plots[#plots + 1] = key
    for by, over, any, owner, why, since in gmatch(text, '([^ ,]*) (%d+) (%d) (%d+ [^ ,]*) ([^ ,]*) (%d+)') do
      if now < tonumber(over) then
        stones[#stones + 1] = { by = by, over = over, any = any, owner = owner, why = why, since = since }
      end
    end
  end
end

-- visit reads the tombstones of the lease.
local function visit()
  grave, stones, plots = lease .. ' ' .. KEYS[2]:sub(#KEYS[1] + 1), {}, {} -- what comes after "<prefix>:sem:": as long as "<prefix>:node"
  if node[3] then
    dig(KEYS[6])
    dig(KEYS[7])
  end
  if node[4] then
    dig(KEYS[6]:sub(1, -8) .. 'long:0')
    dig(KEYS[6]:sub(1, -8) .. 'long:1')
  end
end

if lease ~= '' then
  visit()
end

-- barred reports whether an attempt was given back, so that this owner may do nothing with it any more.
local function barred(by, owner)
  for i = 1, #stones do
    local stone = stones[i]
    if stone.by == by then
      return stone.any == '1' or not smaller(stone.owner, owner)
    end
  end
  return false
end
