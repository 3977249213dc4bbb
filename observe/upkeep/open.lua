-- fragment open: the totals' keys, and whether they are of this version
--
-- The hash is read first, so that a key of a wrong type ends the script here, before
-- its first write.
--
-- Needs    clock
-- Touches  K, processes
-- Gives    processes: a key
--          version: of the totals, false when there are none
local processes = prefix .. 'processes'
local version = redis.call('HGET', K, 'version')
if version and version ~= '1' then
  return redis.error_reply('VERSION ' .. version)
elseif not version and redis.call('EXISTS', K) == 1 then
  return redis.error_reply('BROKEN the version is missing')
end
