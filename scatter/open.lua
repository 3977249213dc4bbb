-- fragment open: a group's own keys before the first write
--
-- Refuses a group of another version. The values have the names that callers give them.
--
-- Needs    nothing
-- Touches  meta, any key
-- Gives    meta: a key
--          known: its version and forever, false for missing ones
local meta = prefix .. 'meta'

local known = redis.call('HMGET', meta, 'version', 'forever')
if known[1] and known[1] ~= '1' then
  return redis.error_reply('VERSION ' .. known[1])
end
