-- The node record, and the server that it was written under.
--
-- KEYS[1]  the node record, a hash:
--            format              of the keys
--            cluster, n, index   the cluster it is a node of
--            run_id, replid      the server's (master_replid) when the record was written
--            state, reason       ok, frozen or suspended
--            ever_ok             1 if it was ever ok
--            known               the largest eras it heard of, by commas; its own among them
--            instance            a nonce, new with each record
--            token               "counter replica" of whoever froze it last
--            mark:<index>        "era counter replica" of the last mark, and by whose token
--            instance:<index>    "era nonce address" of the node's memory that is in use for it
--            offset:<index>      "lo hi at era": how far its clock was ahead at this one's time at, in which era of its; µs
--            pending             "counter replica n index known cluster wait pages complete", laid down by load, not committed
--            floor               the fence floor, µs
--            longest             the longest TTL of a lease that a replica has told of, µs
--            wait                after a cold start nothing is granted before, µs; 0: it may be
--            head                "state index known cluster", what every other operation compares
--            short, long         see tombstones.lua
--            pending_floor       the fence floor that came with what was loaded
--            old                 keys of another era are left to be removed: the cursor of SCAN

local names = { 'cluster', 'index', 'state', 'known', 'token', 'run_id', 'ever_ok', 'pending', 'floor' }
local r = {}
for i, value in ipairs(call('HMGET', KEYS[1], unpack(names))) do
  r[names[i]] = value or nil
end
local run_id = match(call('INFO', 'server'), 'run_id:(%w+)') or ''
local replid = match(call('INFO', 'replication'), 'master_replid:(%w+)') or ''

-- write changes fields of the record.
local function write(fields)
  local flat = {}
  for field, value in pairs(fields) do
    flat[#flat + 1], flat[#flat + 2] = field, value
    r[field] = value
  end
  call('HSET', KEYS[1], 'head', r.state .. ' ' .. (r.index or 0) .. ' ' .. (r.known or '') .. ' ' .. (r.cluster or ''), unpack(flat))
end

-- reply answers with the record.
local function reply(says)
  local fields = call('HGETALL', KEYS[1])
  table.insert(fields, 1, says .. ' ' .. stamp .. ' 0')
  return fields
end

-- frozen_by reports whether the node is frozen by a token under the server's run id, as it is now and as it was then.
local function frozen_by(token, asked_run_id)
  return r.state == 'frozen' and r.token == token and r.run_id == asked_run_id and run_id == asked_run_id
end
