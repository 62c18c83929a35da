-- turn executes the operations of a call, all on one semaphore, one after the other. Each does what it would do if it had come by
-- itself; but what they share is read once, and written once.
--
-- ARGV     head; at, or 0 where there are several; the lease of the first; then of each: which it is, at, lease, and its arguments
-- replies  what the operation replies; of several, a list of that. "out …" and "stale …" are of all

local widths = { claim = 16, release = 13, line = 4 } -- how many arguments each has

-- begin turns to another lease ('': none). What was done with it before, or where anything is odd, has to be in the hash by then.
local seen = { [lease] = true }
local function begin(of)
  if twice or of ~= '' and seen[of] then
    write()
  end
  seen[of] = true
  lease, id, own, window_base = of, of, false, -1024
  if now >= s.due then
    write()
    drop()
  end
  if of ~= '' then
    local text = call('HGET', KEYS[2], 'lease:' .. of)
    own = text and parse(text)
    visit()
  end
end

-- rest forgets what only the operation that is done has to know.
local function rest()
  s.freed, s.stirred, s.more, s.dropped, s.dropped_slots = nil, nil, nil, nil, nil
  s.top = s.used > 0 and s.top or 0
  if line then
    line.stated = none
  end
end

local replies, from = {}, 4
writes = false
repeat
  local name, at, of = ARGV[from], ARGV[from + 1], ARGV[from + 2]
  local next = from + 3 + widths[name]
  if from > 4 then
    begin(of)
  end
  if ARGV[2] ~= '0' or not late(at) then
    replies[#replies + 1] = turns[name](unpack(ARGV, from + 3, next - 1))
    rest()
  else
    replies[#replies + 1] = 'late ' .. stamp
  end
  from = next
until from > #ARGV
write()
return replies[2] and replies or replies[1]
