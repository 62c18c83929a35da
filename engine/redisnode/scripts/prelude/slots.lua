-- Sets of slots, as text: "0-3,7", in rising order, spans neither touching nor overlapping. KEYS[3] is the bitmap of those
-- that are in use. It is read and written through a window of some bytes, so that thousands of slots that lie apart do not
-- take as many commands.

local bitmap = KEYS[3]

-- paint sets (1) or clears (0) the bits of slots, and returns how many they are.
local function paint(slots, bit)
  if tonumber(slots) then
    call('SETBIT', bitmap, slots, bit == 1 and '1' or '0')
    return 1
  end
  local mask = { [0] = 128, 64, 32, 16, 8, 4, 2, 1 }
  local count = 0
  local base, bytes, low, high -- the window: its first byte, what is in it, which of that was changed
  local function flush()
    if low then
      call('SETRANGE', bitmap, base + low - 1, string.char(unpack(bytes, low, high)))
    end
  end
  for first, last in gmatch(slots, '(%d+)%-?(%d*)') do
    for slot = tonumber(first), tonumber(last) or tonumber(first) do
      local byte = math.floor(slot / 8)
      if not base or byte >= base + 1024 then
        flush()
        base, low = byte, nil
        bytes = { call('GETRANGE', bitmap, base, base + 1023):byte(1, -1) }
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
      count = count + 1
    end
  end
  flush()
  return count
end
