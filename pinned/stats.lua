-- pinned.stats(K) shards -> {now, alive, overdue, oldest, set, deleted, reaped}
--
-- Reads the figures of a shard.
--
-- Needs    shard
-- Touches  K, due
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- Reply    the server's clock; how many values exist; how many are overdue; when the first of
--          those expired, the clock if there are none; the counters. Times in Unix
--          milliseconds
-- Cost     O(log N) of the shard's N values
-- Repeat   harmless: it only reads
local due = prefix .. 'due'
local overdue = redis.call('ZCOUNT', due, '-inf', now)
local oldest = overdue > 0 and redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2] or now
local counters = redis.call('HMGET', K, 'set', 'deleted', 'reaped')
return {
  now, redis.call('ZCARD', due) - redis.call('ZCOUNT', due, '+inf', '+inf') - overdue, overdue, tonumber(oldest),
  tonumber(counters[1] or 0), tonumber(counters[2] or 0), tonumber(counters[3] or 0),
}
