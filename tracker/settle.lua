-- tracker.settle(K) stamp id seen live [id seen live ...] -> {confirmed, removed}
--
-- Applies a verification: sets a new stamp for identifiers with work, and removes the others.
-- It skips identifiers whose stamp has changed since.
--
-- Needs    open
-- KEYS[1]  K
-- ARGV[1]  stamp: the clock of tracker.oldest
-- ARGV     id seen live: at most 1,000 times; the identifier, its stamp of tracker.oldest, and
--          '1' if it has work queued, else '0'
-- Reply    {how many got a new stamp, how many were removed}
-- Cost     O(log N) an identifier
-- Repeat   harmless: the second run finds the stamps changed
local wrong = not string.find(ARGV[1], '^%d+$') or #ARGV[1] > 15 or #ARGV > 3001 or #ARGV % 3 ~= 1
for i = 2, #ARGV, 3 do
  wrong = wrong or ARGV[i] == '' or ARGV[i + 2] ~= '0' and ARGV[i + 2] ~= '1'
end
if wrong then
  return redis.error_reply('ERR invalid arguments of a verification')
end
redis.call('HDEL', K, '') -- a full server accepts this first write
local confirmed, removed = 0, 0
for i = 2, #ARGV, 3 do
  local id, seen, live = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('ZSCORE', ids, id) == seen then
    if live == '1' then
      redis.call('ZADD', ids, 'XX', ARGV[1], id)
      confirmed = confirmed + 1
    else
      redis.call('ZREM', ids, id)
      removed = removed + 1
    end
  end
end
if whole and confirmed > 0 then
  redis.call('HINCRBY', K, 'confirmed', confirmed)
end
if whole and removed > 0 then
  redis.call('HINCRBY', K, 'removed', removed)
end
return {confirmed, removed}
