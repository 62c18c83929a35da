#!lua flags=allow-oom
-- load lays an identity down beside what the node has, and a page of memory; see engine.Load. Its keys carry the era that the node
-- will be of.
--
-- KEYS    node
-- ARGV    token ("counter replica"), run_id, "n index known cluster", wait (µs), seq, more (1 or 0), whether there is a page (1 or
--         0); of a page then the fence floor, and how many of each follow by turns:
--           registers: name, definition, data, promise
--           semaphores: name, further (1 or 0), definition, data, promise, last fence, longest TTL, wait left, how many leases: lease,
--             record as in lease.lua, with what is left for the expiry and ages for times; how many cool: "slots lease", left; how
--             many places: replica's place as a claim states it
--           tombstones: lease, semaphore, then by, left, any, owner, why, age
-- replies "<says> <time> <more>" and the fields of the record with their values
--
-- with now text record slots seek lease twice

local token, asked_run_id, identity, wait, seq, more, has_page = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
if not frozen_by(token, asked_run_id) then
  return reply('no')
end
local was_token, was_wait, was_pages, was_complete = match(r.pending or '', '^(%S+ %S*) .* (%d+) (%d+) (%d)$')
local begun = was_token == token
local pages = begun and tonumber(was_pages) or 0
if seq == 0 and pages == 0 then
  wait = wait == '0' and '0' or format('%.0f', now + wait)
elseif begun and seq == pages - 1 then
  return reply('done') -- again
elseif not begun or seq ~= pages or was_complete == '1' then
  return reply('no')
else
  wait = was_wait
end

local prefix = KEYS[1]:sub(1, -5) -- "<prefix>:" of "<prefix>:node"
local at, era = 8, nil
local i = 0
for of in gmatch(match(identity, '^%d+ %d+ (%S+)'), '%d+') do
  if i == tonumber(match(identity, '^%d+ (%d+)')) then
    era = of
  end
  i = i + 1
end

-- take returns the next argument.
local function take()
  at = at + 1
  return ARGV[at - 1]
end

local function key(kind, name) return prefix .. kind .. ':' .. era .. ':' .. name end

-- over returns when something is over that has so long to live.
local function over(left) return left == 'never' and 'never' or format('%.0f', now + left) end

local function ago(age) return format('%.0f', now - age) end

-- occupy marks slots as used, once more if they are, and returns how many were not.
local function occupy(slots, twice)
  local count = 0
  for first, last in gmatch(slots, '(%d+)%-?(%d*)') do
    local stop = (tonumber(last) or first) + 1
    local slot = seek(1, tonumber(first), stop)
    count = count + stop - first
    while slot < stop do
      twice.share(slot)
      count = count - 1
      slot = seek(1, slot + 1, stop)
    end
  end
  paint(slots, 1)
  window_base = -1024 -- what was read of the bitmap is old
  return count
end

local function load_register()
  local name, definition, data, promise = take(), take(), take(), take()
  call('HSET', key('reg', name), 'definition', definition, 'data', data, 'promise', promise)
end

local function load_lease(sem, ends, twice, s)
  local id, l = take(), parse(take())
  l.expiry, l.granted, l.touched, l.copy = over(l.expiry), ago(l.granted), ago(l.touched), '1'
  local name = id
  if call('HEXISTS', sem, 'lease:' .. id) == 1 then
    name = id .. ' ' .. l.by
    twice.add(name)
  end
  call('HSET', sem, 'lease:' .. name, inscribe(l))
  call('ZADD', ends, l.expiry == 'never' and '9007199254740992' or l.expiry, name)
  s.used = s.used + occupy(l.slots, twice)
  s.top = math.max(s.top, match(l.slots, '%d+$') + 1)
  if l.expiry ~= 'never' then
    s.due = math.min(s.due, l.expiry)
  end
  if tonumber(l.fence) > tonumber(s.fence) then
    s.fence = l.fence
  end
end

local function load_place(places)
  local order, arrival, replica, weight, count, total, oldest = match(take(), '^((%S+) %S+ (%S*)) (%d+) (%d+) (%d+) (%d+)$')
  places[#places + 1] = order .. ' ' .. weight .. ' ' .. count .. ' ' .. total .. ' ' .. ago(oldest) .. ' ' .. stamp .. ' '
end

local function load_semaphore()
  local name, further, definition, data, promise, fence, longest, wait_left = take(), take(), take(), take(), take(), take(), take(), take()
  local sem, ends, cool = key('sem', name), key('ends', name), key('cool', name)
  bitmap, window_base = key('used', name), -1024
  if further == '0' then
    call('UNLINK', sem, ends, cool, bitmap)
    call('HSET', sem, 'state', fence .. ' 0 0 ' .. longest .. ' 9007199254740992 ' .. (wait_left == '0' and '0' or over(wait_left)) .. ' 0')
    if definition ~= '' then
      call('HSET', sem, 'definition', definition, 'data', data)
      call('ZADD', prefix .. (definition:sub(-1) == '0' and 'names:' or 'deleted:') .. era, '0', name)
    end
    if promise ~= '0 ' then
      call('HSET', sem, 'promise', promise)
    end
  end
  local s = {}
  local used, top, due, wait_end
  s.fence, used, top, longest, due, wait_end = match(call('HGET', sem, 'state'), '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) %d$')
  s.used, s.top, s.due = tonumber(used), tonumber(top), tonumber(due)
  local twice = open_twice(sem, ends)
  for _ = 1, tonumber(take()) do
    load_lease(sem, ends, twice, s)
  end
  for _ = 1, tonumber(take()) do
    local member, left = take(), take()
    local slots = match(member, '^%S+')
    call('ZADD', cool, over(left), member)
    s.used = s.used + occupy(slots, twice)
    s.top = math.max(s.top, match(slots, '%d+$') + 1)
    s.due = math.min(s.due, now + left)
  end
  local places = {}
  for _ = 1, tonumber(take()) do
    load_place(places)
  end
  if places[1] then
    call('HSET', sem, 'line', table.concat(places, ','))
  end
  local odd = twice.text()
  if odd then
    call('HSET', sem, 'odd', odd)
  end
  call('HSET', sem, 'state', s.fence .. format(' %d %d ', s.used, s.top) .. longest .. ' ' .. format('%.0f', s.due) .. ' ' .. wait_end .. (odd and ' 1' or ' 0'))
end

-- load_tombstone keeps all of a lease in one place, the long one if any lives longer than a minute.
local function load_tombstone()
  local id, name, by, left, any, owner, why, age = take(), take(), take(), take(), take(), take(), take(), take()
  local grave = id .. ' ' .. era .. ':' .. name
  local short, long = prefix .. 'gone:' .. era .. ':short:0', prefix .. 'gone:' .. era .. ':long:0'
  local text = by .. ' ' .. over(left) .. ' ' .. any .. ' ' .. owner .. ' ' .. why .. ' ' .. ago(age)
  local before_short, before_long = call('HGET', short, grave), call('HGET', long, grave)
  local before = before_short or before_long
  if before then
    text = before .. ',' .. text
  end
  if before_long or tonumber(left) > 60000000 then
    call('HSET', long, grave, text)
    call('HDEL', short, grave)
  else
    call('HSET', short, grave, text)
  end
end

if has_page == '1' then
  local floor = take()
  if seq == 0 then
    call('HSET', KEYS[1], 'pending_floor', floor)
  end
  for _, part in ipairs({ load_register, load_semaphore, load_tombstone }) do
    for _ = 1, tonumber(take()) do
      part()
    end
  end
  pages = pages + 1
end
write({ pending = token .. ' ' .. identity .. ' ' .. wait .. ' ' .. pages .. ' ' .. (more == '1' and '0' or '1') })
return reply('done')
