-- The server's clock, read once: it moves inside a script.

local call, format, match, gmatch = redis.call, string.format, string.match, string.gmatch

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]                    -- µs
local stamp = clock[1] .. ('000000' .. clock[2]):sub(-6) -- the same as text; tostring would round it to 14 digits
