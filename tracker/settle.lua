-- tracker.settle(K) stamp id seen live [id seen live ...] -> {confirmed, removed}
--
-- Does what a verification found out: an identifier that has work gets a new
-- stamp, one that has none is removed. Either only if its stamp is what it was
-- before the question: an identifier that was added meanwhile stays as it is.
--
-- Needs    open
-- KEYS[1]  K
-- ARGV[1]  stamp: the clock that tracker.oldest told, before the source was asked
-- ARGV     id seen live: at most 1,000 times; the stamp that tracker.oldest told,
--          and '1' if the identifier has work queued, else '0'
-- Reply    {how many got a new stamp, how many were removed}
-- Cost     O(log N) an identifier
-- Repeat   harmless: the second run finds the stamps changed
redis.call('HDEL', K, '') -- a first write that a full server does not refuse
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
