-- The record of a lease, a field of the semaphore's hash:
-- "expiry fence ver slots by gen nonce counter replica first copy granted touched info"
-- expiry      µs or "never"                            first             1 on its first minute
-- slots       as in slots.lua                          copy              1 if the node was only told of it
-- gen, nonce  the owner                                granted, touched  µs
-- ballot      "counter replica", of the definition     info              free text, to the end
--
-- Identifiers are words: they have neither spaces nor commas (words.go).

-- parse reads a record.
local function parse(text)
  local l = {}
  l.expiry, l.fence, l.ver, l.slots, l.by, l.gen, l.nonce, l.ballot, l.first, l.copy, l.granted, l.touched, l.info =
    match(text, '^(%S+) (%d+) (%d+) (%S+) (%S*) (%d+) (%S*) (%d+ %S*) (%d) (%d) (%d+) (%d+) (.*)$')
  return l
end

-- inscribe writes a record.
local function inscribe(l)
  return l.expiry .. ' ' .. l.fence .. ' ' .. l.ver .. ' ' .. l.slots .. ' ' .. l.by .. ' ' .. l.gen .. ' ' .. l.nonce .. ' ' ..
    l.ballot .. ' ' .. l.first .. ' ' .. l.copy .. ' ' .. l.granted .. ' ' .. l.touched .. ' ' .. l.info
end
