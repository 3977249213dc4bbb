-- ick.retire(K) epoch -> 1 or 0
--
-- Closes an Ick that its channel no longer uses, if it is empty: nothing waits,
-- is reserved or rests. Its version key then says so, and every add is refused,
-- the gem's too, instead of marking what nobody would look at.
--
-- KEYS[1]  K
-- ARGV[1]  epoch: of the channel; only a later one opens the Ick again
-- Reply    1 when the Ick is retired under this epoch or a later one, else 0
-- Cost     O(1)
-- Repeat   harmless: it is retired already
local K = KEYS[1]
local base = K .. '/ick/{' .. K .. '}/'
local pset, cset, parked = base .. 'pset', base .. 'cset', base .. 'parked'

local version = redis.call('GET', K)
local size = redis.call('ZCARD', pset) + redis.call('ZCARD', cset) + redis.call('ZCARD', parked)
local before = version and tonumber(string.match(version, '^ick%.retired:(%d+)$'))
if version and version ~= 'ick.v1' and not before then
  return redis.error_reply('ICKVERSION ' .. version)
elseif size > 0 then
  return 0
elseif before and before >= tonumber(ARGV[1]) then
  return 1
end
redis.call('UNLINK', pset, cset, parked, base .. 'folds', base .. 'meta', base .. 'wake',
  base .. 'fails', base .. 'req', base .. 'req_before')
redis.call('SET', K, 'ick.retired:' .. ARGV[1])
return 1
