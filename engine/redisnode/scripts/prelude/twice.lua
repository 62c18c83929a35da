-- What only a readmission brings: slots that several hold at once, and several attempts of one lease. The semaphore's hash has
-- them in the field "odd", where there are any: "slot more,…;lease by,…": how many more than one hold the slot, and the further
-- attempts, whose records are "lease:<lease> <by>".

-- open_twice reads the field of a semaphore, key, whose leases are sorted in ends, and returns what can be done with it.
local function open_twice(key, ends)
  local slots, names = match(call('HGET', key, 'odd') or ';', '^([^;]*);(.*)$')
  local twice = { changed = false }
  local shared, twins = {}, {}
  for slot, more in gmatch(slots, '(%d+) (%d+)') do
    shared[tonumber(slot)] = tonumber(more)
  end
  for name in gmatch(names, '[^,]+') do
    twins[#twins + 1] = name
  end

  -- glue writes a list by commas; bit by bit, since what is concatenated lies on a stack.
  local function glue(list)
    local texts = {}
    for i = 1, #list, 1000 do
      texts[#texts + 1] = table.concat(list, ',', i, math.min(i + 999, #list))
    end
    return table.concat(texts, ',')
  end

  -- each calls f with every slot.
  local function each(slots, f)
    for first, last in gmatch(slots, '(%d+)%-?(%d*)') do
      for slot = tonumber(first), tonumber(last) or tonumber(first) do
        f(slot)
      end
    end
  end

  -- share notes that one more holds a slot.
  function twice.share(slot)
    shared[slot] = (shared[slot] or 0) + 1
    twice.changed = true
  end

  -- free takes one use of each slot away and returns those that are free now; ''.
  function twice.free(slots)
    local free = {}
    each(slots, function(slot)
      local more = shared[slot]
      if not more then
        free[#free + 1] = slot
      else
        shared[slot] = more > 1 and more - 1 or nil
        twice.changed = true
      end
    end)
    return glue(free)
  end

  -- contested reports whether one of the slots has several holders.
  function twice.contested(slots)
    local found = false
    each(slots, function(slot)
      found = found or shared[slot]
    end)
    return found
  end

  -- add notes a further attempt.
  function twice.add(name)
    twins[#twins + 1] = name
    twice.changed = true
  end

  -- attempt returns the record of the attempt by of a lease, whose first record is own, and its name; of none, own.
  function twice.attempt(own, id, by)
    for i = 1, #twins do
      if own and own.by ~= by and twins[i] == id .. ' ' .. by then
        return parse(call('HGET', key, 'lease:' .. twins[i])), twins[i]
      end
    end
    return own, id
  end

  -- all returns the records of the further attempts of a lease.
  function twice.all(id)
    local list = {}
    for i = 1, #twins do
      if match(twins[i], '^%S+') == id then
        list[#list + 1] = call('HGET', key, 'lease:' .. twins[i])
      end
    end
    return list
  end

  -- ended is told of records that are gone, the first count of list. A further attempt moves up to where the first one was.
  function twice.ended(list, count)
    local gone = {}
    for i = 1, count do
      gone[list[i]] = true
    end
    for i = #twins, 1, -1 do
      if gone[twins[i]] then
        table.remove(twins, i)
        twice.changed = true
      end
    end
    local i = 1
    while twins[i] do
      local name = twins[i]
      local id = match(name, '^%S+')
      if gone[id] then
        gone[id] = nil -- the next one stays where it is
        table.remove(twins, i)
        call('HSET', key, 'lease:' .. id, call('HGET', key, 'lease:' .. name))
        call('ZADD', ends, call('ZSCORE', ends, name), id)
        call('HDEL', key, 'lease:' .. name)
        call('ZREM', ends, name)
        twice.changed = true
      else
        i = i + 1
      end
    end
  end

  -- text writes the field; nil: there is nothing odd any more.
  function twice.text()
    local list = {}
    for slot, more in pairs(shared) do
      list[#list + 1] = format('%d %d', slot, more)
    end
    if list[1] or twins[1] then
      return glue(list) .. ';' .. table.concat(twins, ',')
    end
  end

  return twice
end
