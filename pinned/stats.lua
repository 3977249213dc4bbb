-- pinned.stats(K) shards -> {now, alive, overdue, oldest, set, deleted, reaped}
--
-- Looks and changes nothing.
--
-- Needs    shard
-- Touches  K, due
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- Reply    the server's clock; how many values there are; how many are overdue;
--          since when the oldest of them is, the clock without any; the counters.
--          Times in Unix milliseconds
-- Cost     O(log N) of the shard's N values
-- Repeat   harmless: it writes nothing
local due = prefix .. 'due'
local overdue = redis.call('ZCOUNT', due, '-inf', now)
local oldest = overdue > 0 and redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2] or now
local counters = redis.call('HMGET', K, 'set', 'deleted', 'reaped')
return {
  now, redis.call('ZCARD', due) - redis.call('ZCOUNT', due, '+inf', '+inf') - overdue, overdue, tonumber(oldest),
  tonumber(counters[1] or 0), tonumber(counters[2] or 0), tonumber(counters[3] or 0),
}
