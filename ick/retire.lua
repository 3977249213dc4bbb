-- ick.retire(K) epoch -> 1 or 0
--
-- Closes an Ick that its channel no longer uses, if it has no waiting, reserved and parked
-- members. The version key then makes every add fail, also the gem's, so that no mark gets
-- into an Ick without a consumer.
--
-- Touches  K, pset, cset, folds, meta, wake, parked, fails, lanes:0, lanes:1, keyed:0,
--          keyed:1, none
-- KEYS[1]  K
-- ARGV[1]  epoch: of the channel; only a later one opens the Ick again
-- Reply    1 if the Ick is retired under this epoch or a later one, else 0
-- Cost     O(1)
-- Repeat   harmless: it is retired already
local pset, cset, parked = prefix .. 'pset', prefix .. 'cset', prefix .. 'parked'

local version = redis.call('GET', K)
local size = redis.call('ZCARD', pset) + redis.call('ZCARD', cset) + redis.call('ZCARD', parked)
local before = version and tonumber(string.match(version, '^ick%.retired:(%d+)$'))
if version and not string.find(version, '^ick%.') then
  return redis.error_reply('BROKEN the key of this name holds no Ick')
elseif version and version ~= 'ick.v1' and not before then
  return redis.error_reply('VERSION ' .. version)
elseif not string.find(ARGV[1], '^%d+$') then
  return redis.error_reply('ERR not an epoch: ' .. ARGV[1])
elseif size > 0 then
  return 0
elseif before and before >= tonumber(ARGV[1]) then
  return 1
end
redis.call('UNLINK', pset, cset, parked, prefix .. 'folds', prefix .. 'meta', prefix .. 'wake',
  prefix .. 'fails', prefix .. 'lanes:0', prefix .. 'lanes:1', prefix .. 'keyed:0', prefix .. 'keyed:1')
redis.call('SET', K, 'ick.retired:' .. ARGV[1])
return 1
