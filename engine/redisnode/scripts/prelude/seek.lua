-- What reads the bitmap before it is written.

local window, base = '', -window_size -- bytes of the bitmap, and the number of the first

-- seek returns the first slot of [from, to) whose bit is as asked for, 0 or 1; else to.
local function seek(bit, from, to)
  local skip = bit == 0 and '[^\255]' or '[^%z]'
  while from < to do
    local byte = math.floor(from / 8)
    if byte < base or byte >= base + window_size then
      base = byte
      window = call('GETRANGE', KEYS[3], base .. '', base + window_size - 1 .. '')
    end
    local bits = window:byte(byte - base + 1)
    if not bits then -- the bitmap ends before
      return bit == 0 and from or to
    end
    for slot = from, math.min(byte * 8 + 7, to - 1) do
      if math.floor(bits / mask[slot % 8]) % 2 == bit then
        return slot
      end
    end
    from = (base + (window:find(skip, byte - base + 2) or #window + 1) - 1) * 8
  end
  return to
end

-- join writes spans, first and last slot by turns, as text; bit by bit, since what is concatenated lies on a stack.
local function join(spans)
  local texts, part = {}, {}
  for i = 1, #spans, 2 do
    local first, last = spans[i], spans[i + 1]
    part[#part + 1] = first == last and first or first .. '-' .. last
    if #part == 1000 then
      texts[#texts + 1], part = table.concat(part, ','), {}
    end
  end
  if part[1] then
    texts[#texts + 1] = table.concat(part, ',')
  end
  return table.concat(texts, ',')
end
