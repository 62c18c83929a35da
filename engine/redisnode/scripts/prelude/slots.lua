-- Sets of slots, as text: "0-3,7", in rising order, spans neither touching nor overlapping. KEYS[3] is the bitmap of those
-- that are in use. It is read and written through a window of some bytes, so that thousands of slots that lie apart do not
-- take as many commands.

local window_size = 1024
local mask = { [0] = 128, 64, 32, 16, 8, 4, 2, 1 } -- of the slot whose number has this remainder

-- size counts slots.
local function size(slots)
  if tonumber(slots) then
    return 1
  end
  local sum = 0
  for first, last in gmatch(slots, '(%d+)%-?(%d*)') do
    sum = sum + (tonumber(last) or first) - first + 1
  end
  return sum
end

-- paint sets (1) or clears (0) the bits of slots.
local function paint(slots, bit)
  if tonumber(slots) then
    call('SETBIT', KEYS[3], slots, bit)
    return
  end
  local base, bytes, low, high -- the window: its first byte, what is in it, which of that was changed
  local function flush()
    if low then
      call('SETRANGE', KEYS[3], base + low - 1, string.char(unpack(bytes, low, high)))
    end
  end
  for first, last in gmatch(slots, '(%d+)%-?(%d*)') do
    for slot = tonumber(first), tonumber(last) or tonumber(first) do
      local byte = math.floor(slot / 8)
      if not base or byte >= base + window_size then
        flush()
        base, low = byte, nil
        bytes = { call('GETRANGE', KEYS[3], base, base + window_size - 1):byte(1, -1) }
      end
      local i = byte - base + 1
      for k = #bytes + 1, i do
        bytes[k] = 0
      end
      local m = mask[slot % 8]
      if math.floor(bytes[i] / m) % 2 ~= bit then
        bytes[i] = bit == 1 and bytes[i] + m or bytes[i] - m
      end
      low, high = low or i, i
    end
  end
  flush()
end

-- tally counts the slots in use below bound.
local function tally(bound)
  local byte = math.floor(bound / 8)
  local sum = byte > 0 and call('BITCOUNT', KEYS[3], 0, byte - 1) or 0
  for slot = byte * 8, bound - 1 do
    sum = sum + call('GETBIT', KEYS[3], slot)
  end
  return sum
end
