-- Which slots are free, and which are in use beyond the limit.

-- run adds at most want free slots of [from, to) to spans, first and last by turns, and returns how many are still wanted.
local function run(spans, from, to, want)
  local first = seek(0, from, to)
  while want > 0 and first < to do
    local last = seek(1, first, math.min(to, first + want)) - 1
    spans[#spans + 1] = first
    spans[#spans + 1] = last
    want = want - (last - first + 1)
    first = seek(0, last + 1, to)
  end
  return want
end

-- pick returns the first want free slots from start on, wrapping at bound. There are as many; start < bound.
local function pick(start, bound, want)
  if want == 1 then
    local slot = seek(0, start, bound)
    return (slot < bound and slot or seek(0, 0, start)) .. ''
  end
  local high, spans = {}, {}
  run(spans, 0, start, run(high, start, bound, want))
  local from = 1
  if spans[1] and high[1] and spans[#spans] == high[1] - 1 then
    spans[#spans], from = high[2], 3
  end
  for i = from, #high do
    spans[#spans + 1] = high[i]
  end
  return join(spans)
end

-- beyond returns the slots in use from limit on.
local function beyond(limit)
  local spans = {}
  local first = seek(1, limit, top)
  while first < top do
    local last = seek(0, first, top) - 1
    spans[#spans + 1] = first
    spans[#spans + 1] = last
    first = seek(1, last + 1, top)
  end
  return join(spans)
end
