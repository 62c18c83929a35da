-- Differences of sets of slots.

-- ends returns the spans of slots as numbers, first and last by turns.
local function ends(slots)
  local list, n = {}, 0
  for first, last in gmatch(slots, '(%d+)%-?(%d*)') do
    list[n + 1] = tonumber(first)
    list[n + 2] = tonumber(last) or list[n + 1]
    n = n + 2
  end
  return list
end

-- minus returns the slots of a that are not in b.
local function minus(a, b)
  if a == b or a == '' then
    return ''
  elseif b == '' then
    return a
  end
  local rest = {}
  local function add(first, last)
    if first <= last then
      rest[#rest + 1] = first
      rest[#rest + 1] = last
    end
  end
  local from, other, i = ends(a), ends(b), 1
  for k = 1, #from, 2 do
    local first, last = from[k], from[k + 1]
    while other[i] and other[i] <= last do
      if other[i + 1] >= first then
        add(first, other[i] - 1)
        first = other[i + 1] + 1
      end
      if other[i + 1] > last then
        break
      end
      i = i + 2
    end
    add(first, last)
  end
  return join(rest)
end

-- taken reports whether one of slots is in use.
local function taken(slots)
  for first, last in gmatch(slots, '(%d+)%-?(%d*)') do
    local stop = (tonumber(last) or first) + 1
    if seek(1, tonumber(first), stop) < stop then
      return true
    end
  end
  return false
end
