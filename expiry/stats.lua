-- expiry.stats(K) shards -> {now, hashes, overdue, oldest, deleted, reaped, repaired}
--
-- Reads the figures of a shard.
--
-- Needs    shard
-- Touches  K, due
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- Reply    the server's clock; how many hashes have deadlines; for how many the time of the
--          record has come; the earliest of those or 0; the counters. Times in Unix
--          milliseconds
-- Cost     O(log N)
-- Repeat   harmless: it only reads
local due = prefix .. 'due'
local oldest = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'WITHSCORES', 'LIMIT', 0, 1)[2]
local counters = redis.call('HMGET', K, 'deleted', 'reaped', 'repaired')
local reply = {now, redis.call('ZCARD', due) - redis.call('ZCOUNT', due, '+inf', '+inf'), redis.call('ZCOUNT', due, '-inf', now), time_of(oldest)}
for i = 1, 3 do
  reply[4 + i] = tonumber(counters[i] or 0)
end
return reply
