-- after returns how many leases of ends come up to the one that ended the page before, which may be gone since.
local function after(ends, score, last)
  local low, high = call('ZCOUNT', ends, '-inf', '(' .. score), call('ZCOUNT', ends, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if smaller('0 ' .. last, '0 ' .. call('ZRANGE', ends, middle, middle)[1]:gsub(' ', '\0')) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end
