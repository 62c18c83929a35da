-- tell_lease returns "<slots> <fence> <ver> <expiry> <counter> <replica> <free below bound>" of a record as it is now; false:
-- there is none.
local function tell_lease(l, under, bound)
  if not l then
    return '    ' .. under .. ' ' .. free(bound)
  end
  return l.slots .. ' ' .. l.fence .. ' ' .. l.ver .. ' ' .. l.expiry .. ' ' .. under .. ' ' .. free(bound)
end
