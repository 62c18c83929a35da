-- Tombstones: which attempts of the lease were given back. They are in hashes of the whole node, in two generations each
-- of those that live for up to 60 s (short) and up to an hour (long). A generation is unlinked when it is twice as old as
-- what is in it can get, so no million fields are freed at once.
--
-- KEYS[1] has "short" and "long": "<which generation is written to, 0 or 1> <since when, µs>"
-- The field is "<lease> <semaphore>", the value "by until any gen nonce why" of each attempt, joined by commas.

local grave = lease .. ' ' .. KEYS[2]:sub(#prefix + 5) -- less "sem:"
local stones = {} -- of the lease
local plots = {}  -- where they were found

-- dig reads the tombstones of one kind.
local function dig(kind)
  for generation = 0, 1 do
    local key = prefix .. 'gone:' .. kind .. ':' .. generation
    local text = call('HGET', key, grave)
    if text then
      plots[#plots + 1] = key
      for by, over, any, gen, nonce, why in gmatch(text, '([^ ,]*) (%d+) (%d) (%d+) ([^ ,]*) ([^ ,]*)') do
        if now < tonumber(over) then
          stones[#stones + 1] = { by = by, over = over, any = any, gen = gen, nonce = nonce, why = why }
        end
      end
    end
  end
end

if node[3] then
  dig('short')
end
if node[4] then
  dig('long')
end

-- barred reports whether an attempt was given back, so that this owner may do nothing with it any more.
local function barred(by, gen, nonce)
  for i = 1, #stones do
    local stone = stones[i]
    if stone.by == by then
      return stone.any == '1' or not smaller(stone.gen, stone.nonce, gen, nonce)
    end
  end
  return false
end
