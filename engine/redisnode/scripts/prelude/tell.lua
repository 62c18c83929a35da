-- tell_lease returns "<slots> <fence> <ver> <expiry> <ballot> <free>" of a record as it is now (false: there is none), with the free
-- slots below bound, which is at most the limit.
local function tell_lease(l, ballot, bound)
  local free = format('%d', bound - below(bound))
  if not l then
    return '    ' .. ballot .. ' ' .. free
  end
  return l.slots .. ' ' .. l.fence .. ' ' .. l.ver .. ' ' .. l.expiry .. ' ' .. ballot .. ' ' .. free
end
