-- fragment open: the totals' keys, whether they are of this version, and the time
--
-- The hash is read first, so that a key of a wrong type ends the script here, before
-- its first write.
--
-- Needs  nothing
-- Gives  K, processes, req: keys
--        version: of the totals, false when there are none
--        now: the server's clock in milliseconds
local K = KEYS[1]
local processes, req = K .. ':processes', K .. ':req'
local version = redis.call('HGET', K, 'version')
if version and version ~= '1' then
  return redis.error_reply('STEALVERSION ' .. version)
elseif not version and redis.call('EXISTS', K) == 1 then
  return redis.error_reply('STEALBROKEN the version is missing')
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
