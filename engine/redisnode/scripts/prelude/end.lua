-- write writes what is to be written.
local function write()
  if line and line.changed then
    local texts = {}
    for i = 1, #line.places do
      texts[i] = line.text(line.places[i])
    end
    if texts[1] then
      set[#set + 1], set[#set + 2] = 'line', table.concat(texts, ',')
    else
      call('HDEL', KEYS[2], 'line')
    end
    line.changed = false
  end
  if twice and twice.changed then
    local text = twice.text()
    if text then
      set[#set + 1], set[#set + 2] = 'odd', text
    else
      call('HDEL', KEYS[2], 'odd')
      odd = '0'
    end
    twice.changed = false
  end
  if s.due ~= tonumber(due) then
    due = format('%.0f', s.due)
  end
  local state = s.fence .. format(' %d %d ', s.used, s.used > 0 and s.top or 0) .. s.longest .. ' ' .. due .. ' ' .. wait .. ' ' .. odd
  if state ~= (read[2] or '0 0 0 0 9007199254740992 0 0') then
    set[#set + 1], set[#set + 2] = 'state', state
    read[2] = state
  end
  if set[1] then
    call('HSET', KEYS[2], unpack(set))
    set = {}
  end
end

local writes = true -- finish does; false where several operations share what is written: see turn.lua

-- finish wakes the head of the line if room was made for it, writes what is to be written, and returns the beginning of the reply:
-- "<says> <time> <more>".
local function finish(says)
  if line and s.stirred then
    line.wake('')
  end
  if writes then
    write()
  end
  return says .. ' ' .. stamp .. (s.more and ' 1' or ' 0')
end
