-- expiry.hash_due(K) shards most -> {name, ...}
--
-- Tells which hashes have expired fields, those first that have had them for longest. It
-- has lanes that rest forgotten on the way.
--
-- Needs    shard, tidy
-- Touches  K, due
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  most: how many names at most
-- Reply    names of hashes
-- Cost     O(log N + most)
-- Repeat   harmless: it states what is so
tidy_lanes()
return redis.call('ZRANGEBYSCORE', prefix .. 'due', '-inf', now, 'LIMIT', 0, ARGV[2])
