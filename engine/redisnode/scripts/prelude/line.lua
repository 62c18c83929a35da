-- The line: one place a replica, in rising order, as text:
-- "arrival seq replica weight count total since stated passed", joined by commas
-- weight  of the replica's oldest waiter   since   when that one began to wait, µs
-- count   of all who wait there            stated  when the place was last stated or refreshed, µs
-- total   their weight                     passed  from when on it is passed over unless stated again, µs; empty: it was
--                                                  not woken since

local none = '0 0 ' -- the order of no place
local places = {}
local lined = false -- the line has changed
local stated = none -- the order of the place that this call stated

for order, arrival, replica, weight, count, total, since, at, passed in
  gmatch(read[7] or '', '((%-?%d+) %-?%d+ ([^ ,]*)) (%d+) (%d+) (%d+) (%-?%d+) (%d+) (%d*)') do
  if now >= at + 1500000 and may_drop(0) then
    stirred, lined = true, true
  else
    places[#places + 1] = {
      order = order, arrival = tonumber(arrival), replica = replica, weight = tonumber(weight), count = count,
      total = total, since = since, at = at, passed = tonumber(passed),
    }
  end
end

-- place_text writes a place.
local function place_text(p)
  return p.order .. ' ' .. p.weight .. ' ' .. p.count .. ' ' .. p.total .. ' ' .. p.since .. ' ' .. p.at .. ' ' ..
    (p.passed and format('%.0f', p.passed) or '')
end

-- precedes reports whether a place comes before one of this order: "arrival seq replica".
local function precedes(place, order)
  local arrival, seq, replica = match(order, '^(%S+) (%S+) (%S*)$')
  if place.arrival ~= tonumber(arrival) then
    return place.arrival < tonumber(arrival)
  elseif place.replica ~= replica then
    return less(place.replica, replica)
  end
  return tonumber(match(place.order, ' (%S+)')) < tonumber(seq)
end

-- passed_over reports whether a place's replica was woken and did not answer in time.
local function passed_over(place)
  return place.passed and now >= place.passed
end

-- place_of returns the position of a replica's place, and the place; nil: it has none.
local function place_of(replica)
  for i = 1, #places do
    if places[i].replica == replica then
      return i, places[i]
    end
  end
end

-- state makes place, "arrival seq replica weight count total oldest" or '' for none, the place of a replica, if mode allows:
-- 0 never, 1 unless its place is before this one (then that one is refreshed), 2 if its place is still was, 3 always.
local function state(replica, mode, was, place)
  local i, old = place_of(replica)
  if mode == '0' or mode == '2' and was ~= (old and old.order or none) or place == '' and not old then
    return
  end
  lined = true
  local order, arrival, weight, count, total, oldest = match(place, '^((%S+) %S+ %S*) (%d+) (%d+) (%d+) (%d+)$')
  local since = order and format('%.0f', now - oldest)
  if mode == '1' and old and order and precedes(old, order) then
    old.count, old.total, old.since, old.at, old.passed = count, total, since, stamp, nil
    return
  end
  if old then
    table.remove(places, i)
  end
  if not order then
    return
  end
  local at = 1
  while places[at] and precedes(places[at], order) do
    at = at + 1
  end
  table.insert(places, at, {
    order = order, arrival = tonumber(arrival), replica = replica, weight = tonumber(weight), count = count,
    total = total, since = since, at = stamp,
  })
  stated = order
end

-- wake_head wakes the replica of the head of the line if there is room for it; not the replica spared ('': none), nor one
-- whose place this very call stated.
local function wake_head(spared)
  stirred = false
  if not places[1] or not defined or paused == '1' or now < wait then
    return
  end
  for i = 1, #places do
    local head = places[i]
    if head.weight <= limit and not passed_over(head) then
      local room = free(limit)
      if room < head.weight or head.order == stated or head.replica == spared then
        return
      end
      local slot = freed
      if not slot or slot >= limit or call('GETBIT', KEYS[3], slot) == 1 then
        slot = call('BITPOS', KEYS[3], '0')
      end
      if not head.passed then
        head.passed, lined = now + 100000, true
      end
      local arrival, seq, replica = match(head.order, '^(%S+) (%S+) (%S*)$')
      call('PUBLISH', prefix .. 'wake:' .. replica,
        match(ARGV[1], '%d+') .. ' ' .. arrival .. ' ' .. seq .. ' ' .. slot .. ' ' .. room .. ' ' .. KEYS[2]:sub(#prefix + 5))
      return
    end
  end
end

-- tell_line returns "place elsewhere before": the replica's own place, how many wait elsewhere, and how many of them before
-- order (none is before all).
local function tell_line(replica, order)
  local place, elsewhere, before = none, 0, 0
  for i = 1, #places do
    local p = places[i]
    if p.replica == replica then
      place = p.order
    elseif not passed_over(p) then
      elsewhere = elsewhere + p.count
      if precedes(p, order) then
        before = before + p.count
      end
    end
  end
  return place, elsewhere, before
end

-- tell_own_line is tell_line as the replica's oldest waiter sees it.
local function tell_own_line(replica)
  local _, own_place = place_of(replica)
  return tell_line(replica, own_place and own_place.order or none)
end
