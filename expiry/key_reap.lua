-- expiry.key_reap(K) most -> number
--
-- Removes values whose time is over, those first that have been for longest.
--
-- KEYS[1]  K
-- ARGV[1]  most: how many to look at
-- Reply    how many were looked at; as many as that when more are probably due
-- Cost     O(log N) each, of the shard's N values
-- Repeat   harmless: what is gone is gone
redis.call('ZCARD', due) -- fails here if it is something else
redis.call('HDEL', K, '') -- a first write that a full server does not refuse
return reap(tonumber(ARGV[1]))
