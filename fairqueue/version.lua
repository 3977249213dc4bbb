-- fragment version: whether this is a queue that scripts know
--
-- A queue of another version, or one that lost its record, is refused.
--
-- A queue has as many streams as somebody wanted, and only the running script knows
-- which it comes to. So calls declare the record alone, and are not made while the
-- slot of the queue is on its way to another node of a Cluster.
--
-- Needs    nothing
-- Touches  K, waits, due, delayed, later, places, dead, wake, s:*
-- Gives    refused(version): the error for what the record says, or nil
local function refused(version)
  if version and version ~= '1' then
    return redis.error_reply('VERSION ' .. version)
  elseif not version and redis.call('EXISTS', K, K .. ':waits', K .. ':due', K .. ':later', K .. ':places', K .. ':dead') > 0 then
    return redis.error_reply('BROKEN the version is missing')
  end
end
