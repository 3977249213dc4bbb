-- ick.delete(K) how -> number of keys
--
-- Removes an Ick whole: marks, reservations, parked members and counters.
--
-- KEYS[1]  K
-- ARGV[1]  how: 'whole' refuses an Ick that is broken, 'force' removes whatever
--          lies at its keys
-- Reply    how many of the gem's three keys there were
-- Cost     O(1); the memory is freed in the background
-- Repeat   harmless: the second run finds nothing and counts 0
local K = KEYS[1]
local base = K .. '/ick/{' .. K .. '}/'
local pset, cset = base .. 'pset', base .. 'cset'
if ARGV[1] ~= 'force' then
  local version = redis.call('GET', K)
  local size = redis.call('ZCARD', pset) + redis.call('ZCARD', cset)
  if version and version ~= 'ick.v1' then
    return redis.error_reply('ICKVERSION ' .. version)
  elseif not version and size > 0 then
    return redis.error_reply('ICKBROKEN the version key is missing')
  end
end
local deleted = redis.call('UNLINK', K, pset, cset)
redis.call('UNLINK', base .. 'folds', base .. 'meta', base .. 'wake', base .. 'parked',
  base .. 'fails', base .. 'req', base .. 'req_before')
return deleted
