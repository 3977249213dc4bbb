-- pinned.reap(K) shards most -> {number, more}
--
-- Removes values whose time is over, those first that have been for longest.
--
-- Needs    values, tidy
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  most: how many to look at
-- Reply    how many were looked at; 1 when more are due, else 0
-- Cost     O(log N) each, of the shard's N values
-- Repeat   harmless: what is gone is gone
redis.call('HDEL', K, '') -- a first write that a full server does not refuse
tidy_lanes()
local looked, more = reap(tonumber(ARGV[2]))
return {looked, more and 1 or 0}
