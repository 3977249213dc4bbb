-- fragment open: a group's side keys, before anything is written
--
-- Refuses what was written in another version. The values on the server are not below
-- K: they have the names that callers give them.
--
-- Needs    nothing
-- Touches  meta, any key
-- Gives    meta: a side key
--          versioned: the version that is written down, false for none
local meta = prefix .. 'meta'

local versioned = redis.call('HGET', meta, 'version')
if versioned and versioned ~= '1' then
  return redis.error_reply('VERSION ' .. versioned)
end
