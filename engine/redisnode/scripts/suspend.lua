#!lua flags=allow-oom
-- suspend takes the node out.
--
-- KEYS    node
-- ARGV    head, at, reason
-- replies "<says> <time> <more>" and the fields of the record with their values
--
-- with now text admit record

write({ state = 'suspended', reason = ARGV[3] })
return reply('done')
