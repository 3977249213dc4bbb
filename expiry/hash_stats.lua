-- expiry.hash_stats(K) -> {now, hashes, overdue, oldest, set, deleted, reaped, repaired}
--
-- Looks at a shard and changes nothing.
--
-- KEYS[1]  K
-- ARGV     none
-- Reply    the server's clock, how many hashes have deadlines, for how many the
--          index says that one has come, the earliest of those or 0, times in
--          milliseconds; and the counters of the record, nil for 0
-- Cost     O(log N)
-- Repeat   harmless: it only reads
local oldest = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'WITHSCORES', 'LIMIT', 0, 1)[2]
local counters = redis.call('HMGET', K, 'set', 'deleted', 'reaped', 'repaired')
return {now, redis.call('ZCARD', due), redis.call('ZCOUNT', due, '-inf', now), tonumber(oldest or 0), unpack(counters)}
