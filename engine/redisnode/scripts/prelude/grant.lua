-- What gives slots, fences and time to leases.

-- occupy marks slots as used.
local function occupy(slots)
  paint(slots, 1)
  used = used + size(slots)
  top = math.max(top, match(slots, '%d+$') + 1)
end

-- next_fence returns the fence of a new grant for which one was proposed.
local function next_fence(proposed)
  return format('%.0f', math.max(last_fence + 1, (node[2] or 0) + 1, proposed))
end

-- raise makes fence the semaphore's last, if it is larger.
local function raise(fence)
  if tonumber(fence) > last_fence then
    last_fence = tonumber(fence)
    put('fence', fence)
  end
end

-- lengthen lets a lease live for ttl, µs or "never", from now on, if that is longer than it would (expiry '0': it is new).
local function lengthen(l, ttl)
  if ttl == 'never' then
    if l.expiry ~= 'never' then
      l.expiry = 'never'
      call('ZADD', KEYS[4], '9007199254740992', lease)
    end
    return
  end
  if tonumber(ttl) > longest then
    longest = tonumber(ttl)
    put('longest', ttl)
  end
  if l.expiry ~= 'never' and now + ttl > tonumber(l.expiry) then
    l.expiry = format('%.0f', now + ttl)
    call('ZADD', KEYS[4], l.expiry, lease)
  end
end
