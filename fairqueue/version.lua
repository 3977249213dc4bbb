-- fragment version: whether this is a queue that scripts know
--
-- A queue of another version, or one that lost its record, is refused.
--
-- Needs  nothing
-- Gives  K, req: keys
--        refused(version): the error for what the record says, or nil
local K = KEYS[1]
local req = K .. ':req'

local function refused(version)
  if version and version ~= '1' then
    return redis.error_reply('QUEUEVERSION ' .. version)
  elseif not version and redis.call('EXISTS', K, K .. ':waits', K .. ':due', K .. ':later', K .. ':places', K .. ':dead') > 0 then
    return redis.error_reply('QUEUEBROKEN the version is missing')
  end
end
