-- pinned.begin(K) shards -> 1
--
-- Creates the keys of a shard of values. They exist until the shard is deleted: a Redis
-- Cluster refuses calls that declare a missing key of a moving slot.
--
-- Needs    begin_shard
-- Touches  K, due, values, lanes:0, lanes:1
-- Makes    K hash version 2, due zset, values hash, lanes:0 hash, lanes:1 hash
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- Reply    1
-- Cost     O(1)
-- Repeat   harmless: it changes nothing that exists
redis.call('HLEN', prefix .. 'values') -- fails for another type
local begun = begin_shard()
if begun == 1 then
  redis.call('HSETNX', prefix .. 'values', '', '0')
end
return begun
