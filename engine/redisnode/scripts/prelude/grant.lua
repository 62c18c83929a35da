-- What gives slots, fences and time to leases.

-- occupy marks slots as used.
local function occupy(slots)
  s.used = s.used + paint(slots, 1)
  s.top = math.max(s.top, match(slots, '%d+$') + 1)
end

-- next_fence returns the fence of a new grant for which one was proposed. It is the semaphore's last from then on.
local function next_fence(proposed)
  s.fence = format('%.0f', math.max(s.fence + 1, (node[2] or 0) + 1, proposed))
  return s.fence
end

-- keep writes a record, and lets it live for ttl, µs or "never", from now on, if that is longer than it would; without an expiry
-- it is new.
local function keep(l, ttl)
  local expiry = never
  if ttl ~= 'never' then
    expiry = now + ttl
    if ttl ~= s.longest and tonumber(ttl) > tonumber(s.longest) then
      s.longest = ttl
    end
  end
  if not l.expiry or l.expiry ~= 'never' and expiry > tonumber(l.expiry) then
    local score = format('%.0f', expiry)
    call('ZADD', KEYS[4], score, id)
    l.expiry = expiry < never and score or 'never'
    if expiry < s.due then
      s.due = expiry
    end
  end
  set[#set + 1], set[#set + 2] = 'lease:' .. id, inscribe(l)
end
