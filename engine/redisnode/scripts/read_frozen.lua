#!lua flags=allow-oom
-- read_frozen reads a page of what a node remembers that is frozen by a token: its own memory; of a node that never was ok, what was
-- loaded into it as a whole.
--
-- KEYS    node
-- ARGV    token ("counter replica"), run_id, semaphore, cursor
-- replies "<says> <time> <more>", with no then the fields of the record with their values; else as page.lua says
--
-- with now text record after page

if not frozen_by(ARGV[1], ARGV[2]) then
  return reply('no')
end
local era, floor = era_of(r.index or 0, r.known or ''), r.floor or '0'
local index, known, pages, complete = match(r.pending or '', '^%S+ %S* %d+ (%d+) (%S+) %S* %d+ (%d+) (%d)$')
if r.ever_ok ~= '1' and complete == '1' and pages ~= '0' then
  era, floor = era_of(index, known), call('HGET', KEYS[1], 'pending_floor') or '0'
end
return page(era, ARGV[3], ARGV[4], floor)
