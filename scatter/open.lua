-- fragment open: where a group's side keys are, before anything is written
--
-- K is empty: one of the servers is a whole server, and what the values on it are
-- called is the callers' affair. Refuses what was written in another version.
--
-- Needs  nothing
-- Gives  K: what all keys of the server begin with
--        base, meta, req: side keys
--        versioned: the version that is written down, false for none
local K = KEYS[1]
local base = K .. ARGV[1]
local meta, req = base .. ':meta', base .. ':req'

local versioned = redis.call('HGET', meta, 'version')
if versioned and versioned ~= '1' then
  return redis.error_reply('SCATTERVERSION ' .. versioned)
end
