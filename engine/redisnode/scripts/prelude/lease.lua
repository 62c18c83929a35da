-- The record of a lease, a field of the semaphore's hash:
-- "expiry fence ver slots by owner ballot first copy granted touched info"
-- expiry  µs or "never"                                first             1 on its first minute
-- slots   as in slots.lua                              copy              1 if the node was only told of it
-- owner   "gen nonce"                                  granted, touched  µs
-- ballot  "counter replica", of the definition         info              free text, to the end
--
-- Identifiers are words: they have neither spaces nor commas (words.go).

-- parse reads a record.
local function parse(text)
  local expiry, fence, ver, slots, by, owner, ballot, first, copy, granted, touched, info =
    match(text, '^(%S+) (%d+) (%d+) (%S+) (%S*) (%d+ %S*) (%d+ %S*) (%d) (%d) (%d+) (%d+) (.*)$')
  return {
    expiry = expiry, fence = fence, ver = ver, slots = slots, by = by, owner = owner, ballot = ballot, first = first, copy = copy,
    granted = granted, touched = touched, info = info,
  }
end

-- inscribe writes a record.
local function inscribe(l)
  return l.expiry .. ' ' .. l.fence .. ' ' .. l.ver .. ' ' .. l.slots .. ' ' .. l.by .. ' ' .. l.owner .. ' ' .. l.ballot .. ' ' ..
    l.first .. ' ' .. l.copy .. ' ' .. l.granted .. ' ' .. l.touched .. ' ' .. l.info
end
