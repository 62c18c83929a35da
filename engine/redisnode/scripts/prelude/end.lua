-- How an operation on a semaphore ends.

-- finish wakes the head of the line if room was made for it, writes what is to be written, and returns the beginning of
-- the reply: "<says> <time> <more>".
local function finish(says)
  if stirred then
    wake_head('')
  end
  if lined then
    local texts = {}
    for i = 1, #places do
      texts[i] = place_text(places[i])
    end
    if texts[1] then
      put('line', table.concat(texts, ','))
    else
      call('HDEL', KEYS[2], 'line')
    end
  end
  if used ~= tonumber(read[3] or 0) then
    put('used', used)
    if used == 0 then
      top = 0
    end
  end
  if top ~= tonumber(read[4] or 0) then
    put('top', top)
  end
  if set[1] then
    call('HSET', KEYS[2], unpack(set))
  end
  return says .. ' ' .. stamp .. ' ' .. more
end
