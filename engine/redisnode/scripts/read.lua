#!lua flags=allow-oom
-- read reads a page of what an ok node remembers; see engine.Read.
--
-- KEYS    node
-- ARGV    head, at, run_id, semaphore, cursor
-- replies "<says> <time> <more>", with no then the fields of the record with their values; else as page.lua says
--
-- with now text admit record after page

if run_id ~= ARGV[3] or r.run_id ~= ARGV[3] then
  return reply('no')
end
return page(era_of(r.index, r.known), ARGV[4], ARGV[5], r.floor or '0')
