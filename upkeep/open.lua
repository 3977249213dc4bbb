-- fragment open: the totals' keys, whether they are of this version, and the time
--
-- The hash is read first, so that a key of a wrong type ends the script here, before
-- its first write.
--
-- Needs    nothing
-- Touches  K, processes
-- Gives    processes: a key
--          version: of the totals, false when there are none
--          now: the server's clock in milliseconds
local processes = prefix .. 'processes'
local version = redis.call('HGET', K, 'version')
if version and version ~= '1' then
  return redis.error_reply('VERSION ' .. version)
elseif not version and redis.call('EXISTS', K) == 1 then
  return redis.error_reply('BROKEN the version is missing')
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
