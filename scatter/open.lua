-- fragment open: a group's side keys, before anything is written
--
-- Refuses what was written in another version. The values on the server are not below
-- K: they have the names that callers give them.
--
-- Needs    nothing
-- Touches  meta, any key
-- Gives    meta: a side key
--          known: its version and forever, false for what is not there
local meta = prefix .. 'meta'

local known = redis.call('HMGET', meta, 'version', 'forever')
if known[1] and known[1] ~= '1' then
  return redis.error_reply('VERSION ' .. known[1])
end
