-- ick.delete(K) how -> number of keys
--
-- Removes a whole Ick: marks, reservations, parked members and counters.
--
-- Touches  K, pset, cset, folds, meta, wake, parked, fails, lanes:0, lanes:1, keyed:0,
--          keyed:1, none
-- KEYS[1]  K
-- ARGV[1]  how: 'whole' refuses a broken Ick, 'channel' only one whose name is the key of
--          something else, 'force' removes its keys whatever they hold
-- Reply    how many of the gem's three keys existed
-- Cost     O(1); the memory is freed in the background
-- Repeat   harmless: the second run finds nothing and replies 0
local pset, cset = prefix .. 'pset', prefix .. 'cset'
local version = ARGV[1] ~= 'force' and redis.call('GET', K)
if version and not string.find(version, '^ick%.') then
  return redis.error_reply('BROKEN the key of this name holds no Ick')
elseif ARGV[1] ~= 'force' and ARGV[1] ~= 'channel' then
  local size = redis.call('ZCARD', pset) + redis.call('ZCARD', cset)
  if version and version ~= 'ick.v1' then
    return redis.error_reply('VERSION ' .. version)
  elseif not version and size > 0 then
    return redis.error_reply('BROKEN the version key is missing')
  end
end
local deleted = redis.call('UNLINK', K, pset, cset)
redis.call('UNLINK', prefix .. 'folds', prefix .. 'meta', prefix .. 'wake', prefix .. 'parked',
  prefix .. 'fails', prefix .. 'lanes:0', prefix .. 'lanes:1', prefix .. 'keyed:0', prefix .. 'keyed:1')
return deleted
