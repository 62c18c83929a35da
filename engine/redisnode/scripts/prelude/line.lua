-- The line: one place a replica, in rising order, as text:
-- "arrival seq replica weight count total since stated passed", joined by commas
-- weight  of the replica's oldest waiter   since   when that one began to wait, µs
-- count   of all who wait there            stated  when the place was last stated or refreshed, µs
-- total   their weight                     passed  from when on it is passed over unless stated again, µs; empty: it was
--                                                  not woken since

local none = '0 0 ' -- the order of no place

-- publish tells a replica ('*': all) something of the semaphore: "<index> <what> <semaphore>".
local function publish(replica, what)
  call('PUBLISH', KEYS[1]:sub(1, -5) .. 'wake:' .. replica, -- "<prefix>:" is left of "<prefix>:node"
    match(ARGV[1], '%d+') .. ' ' .. what .. ' ' .. match(KEYS[2], '^%d+:(.*)$', #KEYS[1] + 1)) -- after "<prefix>:sem:<era>:"
end

-- open_line reads the line and returns what can be done with it.
local function open_line(text)
  local places = {}
  local line = {
    places = places,
    changed = false,
    stated = none, -- the order of the place that this call stated
  }

  for order, arrival, replica, weight, count, total, since, stated, passed in
    gmatch(text, '((%-?%d+) %-?%d+ ([^ ,]*)) (%d+) (%d+) (%d+) (%-?%d+) (%d+) (%d*)') do
    if now >= stated + 1500000 and may_drop('') then
      s.stirred, line.changed = true, true
    else
      places[#places + 1] = {
        order = order, arrival = tonumber(arrival), replica = replica, weight = tonumber(weight), count = count, total = total,
        since = since, stated = stated, passed = tonumber(passed),
      }
    end
  end

  -- text writes a place.
  function line.text(p)
    return p.order .. ' ' .. p.weight .. ' ' .. p.count .. ' ' .. p.total .. ' ' .. p.since .. ' ' .. p.stated .. ' ' ..
      (p.passed and format('%.0f', p.passed) or '')
  end

  -- precedes reports whether a place comes before one of this order, "arrival seq replica".
  function line.precedes(p, order)
    local arrival, seq, replica = match(order, '^(%S+) (%S+) (%S*)$')
    if p.arrival ~= tonumber(arrival) then
      return p.arrival < tonumber(arrival)
    elseif p.replica ~= replica then
      return smaller('0 ' .. p.replica, '0 ' .. replica)
    end
    return tonumber(match(p.order, ' (%S+)')) < tonumber(seq)
  end

  -- counts reports whether a place is in line: not when its replica was woken and did not answer in time, nor when it is
  -- heavier than the limit, for it would block the line for ever.
  function line.counts(p)
    return p.weight <= s.limit and not (p.passed and now >= p.passed)
  end

  -- of returns the position of a replica's place, and the place; nil: it has none.
  function line.of(replica)
    for i = 1, #places do
      if places[i].replica == replica then
        return i, places[i]
      end
    end
  end

  -- state makes place, "arrival seq replica weight count total oldest" or '' for none, the place of a replica, if mode
  -- allows: 0 never, 1 unless its place is before this one (then that one is refreshed), 2 if its place is still was, 3
  -- always.
  function line.state(replica, mode, was, place)
    local i, old = line.of(replica)
    if mode == '0' or mode == '2' and was ~= (old and old.order or none) or place == '' and not old then
      return
    end
    line.changed = true
    local order, arrival, weight, count, total, oldest = match(place, '^((%S+) %S+ %S*) (%d+) (%d+) (%d+) (%d+)$')
    local since = order and format('%.0f', now - oldest)
    if mode == '1' and old and order and line.precedes(old, order) then
      old.count, old.total, old.since, old.stated, old.passed = count, total, since, stamp, nil
      return
    end
    if old then
      table.remove(places, i)
    end
    if not order then
      return
    end
    local at = 1
    while places[at] and line.precedes(places[at], order) do
      at = at + 1
    end
    table.insert(places, at, {
      order = order, arrival = tonumber(arrival), replica = replica, weight = tonumber(weight), count = count, total = total,
      since = since, stated = stamp,
    })
    line.stated = order
  end

  -- wake wakes the replica of the head of the line if there is room for it; not the replica spared ('': none), nor one
  -- whose place this very call stated.
  function line.wake(spared)
    s.stirred = nil
    local head
    for i = 1, #places do
      if line.counts(places[i]) then
        head = places[i]
        break
      end
    end
    if not head or not s.defined or s.paused or s.wait and now < s.wait then
      return
    end
    local room = s.limit - s.used -- each slot in use beyond the limit takes one below it out of reach
    if room < head.weight or head.order == line.stated or head.replica == spared then
      return
    end
    local slot = s.freed
    if not slot or slot >= s.limit or call('GETBIT', KEYS[3], slot) == 1 then
      slot = call('BITPOS', KEYS[3], '0')
    end
    if not head.passed then
      head.passed, line.changed = now + 100000, true
    end
    local arrival, seq = match(head.order, '^(%S+) (%S+)')
    publish(head.replica, arrival .. ' ' .. seq .. ' ' .. slot .. ' ' .. room)
  end

  -- tell returns "<place> <elsewhere> <before>": the replica's own place, how many wait elsewhere, and how many of them before
  -- order; nil: before its own place.
  function line.tell(replica, order)
    local _, own_place = line.of(replica)
    order = order or own_place and own_place.order or none
    local elsewhere, before = 0, 0
    for i = 1, #places do
      local p = places[i]
      if p ~= own_place and not (p.passed and now >= p.passed) then
        elsewhere = elsewhere + p.count
        if line.precedes(p, order) then
          before = before + p.count
        end
      end
    end
    return (own_place and own_place.order or none) .. ' ' .. elsewhere .. ' ' .. before
  end

  return line
end

local line = read[3] and open_line(read[3]) -- false: nobody is in it

-- state states the place of a replica; see line.state.
local function state(replica, mode, was, place)
  if not line and place ~= '' then
    line = open_line('')
  end
  if line then
    line.state(replica, mode, was, place)
  end
end
