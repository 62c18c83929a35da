#!lua flags=allow-oom
-- freeze stops the node for the bearer of a token; see engine.Freeze.
--
-- KEYS    node
-- ARGV    token, was ("counter replica"), cluster, run_id, a nonce for a new instance
-- replies "<says> <time> <more>" and the fields of the record with their values
--
-- with now text record

local token, was, cluster, asked_run_id, nonce = unpack(ARGV)

-- gives_way reports whether the record gives way to the token.
local function gives_way()
  if smaller(token, r.token or '0 ') or r.token ~= token and r.token ~= was then
    return false
  end
  if r.token == token and r.state ~= 'frozen' then -- what the token was for is done: this comes late
    return false
  end
  return r.ever_ok ~= '1' or r.cluster == cluster
end

if asked_run_id ~= run_id or r.state and not gives_way() then
  return reply('no')
end
if not r.state then
  write({ state = 'frozen', format = '1', instance = nonce })
end
write({ state = 'frozen', token = token, run_id = run_id, replid = replid })
return reply('done')
