-- What reads the bitmap, before anything of it is written.

local window, window_base = '', -1024 -- some bytes of the bitmap, and the number of the first

-- seek returns the first slot of [from, to) whose bit is as asked for, 0 or 1; else to.
local function seek(bit, from, to)
  while from < to do
    local byte = math.floor(from / 8)
    if byte < window_base or byte >= window_base + 1024 then
      window_base = byte - byte % 1024
      window = call('GETRANGE', bitmap, format('%d', window_base), format('%d', window_base + 1023))
    end
    local i = byte - window_base + 1
    local value = window:byte(i)
    if not value then -- the bitmap ends before
      return bit == 0 and from or to
    end
    value = value % 2 ^ (8 - from % 8)
    for slot = from, math.min(byte * 8 + 7, to - 1) do
      local mask = 2 ^ (7 - slot % 8)
      if (value >= mask) == (bit == 1) then
        return slot
      end
      value = value % mask
    end
    i = window:find(bit == 0 and '[^\255]' or '[^%z]', i + 1) or #window + 1
    from = (window_base + i - 1) * 8
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
