-- What of the node's memory is read for a merge; see engine.Read. The answer has, after the head, the fields of the record and
-- their values by turns, then the cursor of the next page ('' at the end), then the page.

local prefix = KEYS[1]:sub(1, -5) -- "<prefix>:" of "<prefix>:node"
local batch = 500                 -- about how many entries an answer has: engine.ReadMax

-- begin returns a reply that has the record: "done <time> 0 <how many fields and values> <what is after them>".
local function begin(more)
  local answer = call('HGETALL', KEYS[1])
  table.insert(answer, 1, 'done ' .. stamp .. ' 0 ' .. #answer .. ' ' .. more)
  return answer
end

-- semaphore reads a semaphore of an era: "<last fence> <longest TTL> <wait left> <how many cool> <how many places>", and then
-- definition, data and promise, what cools as "slots lease" and its end by turns, the places as in line.lua, and the leases, id and
-- record by turns. What comes after a cursor has leases only.
local function semaphore(era, name, cursor)
  local key, ends, cool = prefix .. 'sem:' .. era .. ':' .. name, prefix .. 'ends:' .. era .. ':' .. name, prefix .. 'cool:' .. era .. ':' .. name
  local body = {}
  local start, head = 0, '0 0 0 0 0'
  if cursor == '' then
    local read = call('HMGET', key, 'definition', 'data', 'promise', 'state', 'line')
    local fence, longest, wait = match(read[4] or '0 0 0 0 0 0 0', '^(%d+) %d+ %d+ (%d+) %d+ (%d+)')
    body[1], body[2], body[3] = read[1] or '', read[2] or '', read[3] or ''
    local cooling, places = call('ZRANGE', cool, 0, -1, 'WITHSCORES'), 0
    for i = 1, #cooling, 2 do
      body[#body + 1], body[#body + 2] = cooling[i], format('%.0f', tonumber(cooling[i + 1]))
    end
    for place in gmatch(read[5] or '', '[^,]+') do
      body[#body + 1] = place
      places = places + 1
    end
    head = fence .. ' ' .. longest .. ' ' .. format('%.0f', math.max(0, wait - now)) .. ' ' .. #cooling / 2 .. ' ' .. places
  else
    local score, last = match(cursor, '^(%d+) (.*)$')
    start = after(ends, score, (last:gsub(' ', '\0')))
  end
  local page = call('ZRANGE', ends, start, start + batch - 1, 'WITHSCORES')
  local next_cursor = ''
  if page[1] then
    local fields = {}
    for i = 1, #page, 2 do
      fields[#fields + 1] = 'lease:' .. page[i]
    end
    local records = call('HMGET', key, unpack(fields))
    for i = 1, #records do
      body[#body + 1], body[#body + 2] = match(page[2 * i - 1], '^%S+'), records[i]
    end
    if #records == batch then
      next_cursor = format('%.0f', tonumber(page[#page])) .. ' ' .. page[#page - 1]
    end
  end
  local answer = begin(head)
  answer[#answer + 1] = next_cursor
  for i = 1, #body do
    answer[#answer + 1] = body[i]
  end
  return answer
end

-- list reads names, registers and tombstones of an era: "<how many names> <how many registers> <fence floor>", and then the names,
-- of each register its name, definition, data and promise, and the tombstones as in tombstones.lua, "lease semaphore" and text
-- by turns. A cursor is "k <cursor of SCAN>" or "t <which hash> <cursor of HSCAN>".
local function list(era, cursor, floor)
  local names, registers, stones, next_cursor = {}, {}, {}, nil
  local which, scanned = match(cursor, '^t (%d) (%d+)$')
  if not which then
    local found = call('SCAN', match(cursor, '%d+') or '0', 'COUNT', batch)
    local sems, regs = prefix .. 'sem:' .. era .. ':', prefix .. 'reg:' .. era .. ':'
    for i = 1, #found[2] do
      local key = found[2][i]
      if key:sub(1, #sems) == sems then
        names[#names + 1] = key:sub(#sems + 1)
      elseif key:sub(1, #regs) == regs then
        local read = call('HMGET', key, 'definition', 'data', 'promise')
        for k, text in ipairs({ key:sub(#regs + 1), read[1] or '', read[2] or '', read[3] or '' }) do
          registers[#registers + 1] = text
        end
      end
    end
    next_cursor = found[1] == '0' and 't 1 0' or 'k ' .. found[1]
  else
    local hashes = { 'short:0', 'short:1', 'long:0', 'long:1' }
    local found = call('HSCAN', prefix .. 'gone:' .. era .. ':' .. hashes[tonumber(which)], scanned, 'COUNT', batch)
    for i = 1, #found[2], 2 do
      local id, name = match(found[2][i], '^(%S+) %d+:(.*)$')
      stones[#stones + 1], stones[#stones + 2] = id .. ' ' .. name, found[2][i + 1]
    end
    if found[1] ~= '0' then
      next_cursor = 't ' .. which .. ' ' .. found[1]
    else
      next_cursor = which == '4' and '' or 't ' .. which + 1 .. ' 0'
    end
  end
  local answer = begin(#names .. ' ' .. #registers / 4 .. ' ' .. floor)
  answer[#answer + 1] = next_cursor
  for _, part in ipairs({ names, registers, stones }) do
    for i = 1, #part do
      answer[#answer + 1] = part[i]
    end
  end
  return answer
end

-- era_of returns the era of the node itself, in a vector.
local function era_of(index, known)
  local i = 0
  for era in gmatch(known, '%d+') do
    if i == tonumber(index) then
      return era
    end
    i = i + 1
  end
  return '0'
end

-- page reads a semaphore, or with no name the lists.
local function page(era, name, cursor, floor)
  if name == '' then
    return list(era, cursor, floor)
  end
  return semaphore(era, name, cursor)
end
