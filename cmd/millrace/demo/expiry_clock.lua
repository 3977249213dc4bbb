-- demo.expiry_clock(K) -> {seconds, microseconds}
--
-- Tells the time of the server that a shard lies on.
--
-- KEYS[1]  K: the shard; it is not looked at
-- ARGV     none
-- Reply    what TIME says
-- Cost     O(1)
-- Repeat   harmless: it only reads
return redis.call('TIME')
