-- pick returns the first want free slots from start on, wrapping at bound. There are as many; start < bound.
local function pick(start, bound, want)
  if want == 1 then
    local slot = s.used > 0 and seek(0, start, bound) or start
    return format('%d', slot < bound and slot or seek(0, 0, start))
  end
  -- run adds at most want free slots of [from, to) to spans.
  local function run(spans, from, to)
    local first = seek(0, from, to)
    while want > 0 and first < to do
      local last = seek(1, first, math.min(to, first + want)) - 1
      spans[#spans + 1] = first
      spans[#spans + 1] = last
      want = want - (last - first + 1)
      first = seek(0, last + 1, to)
    end
  end
  local high, spans, from = {}, {}, 1
  run(high, start, bound)
  run(spans, 0, start)
  if spans[1] and high[1] and spans[#spans] == high[1] - 1 then
    spans[#spans], from = high[2], 3
  end
  for i = from, #high do
    spans[#spans + 1] = high[i]
  end
  return join(spans)
end
