-- pinned.begin(K) shards -> 1
--
-- Begins a shard of values. All keys of a shard are there from now on until it is
-- deleted, some with a placeholder: a Redis Cluster does not run scripts on a key that
-- is missing while its slot moves.
--
-- Needs    begin_shard
-- Touches  K, due, values, lanes:0, lanes:1
-- Makes    K hash version 2, due zset, values hash, lanes:0 hash, lanes:1 hash
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- Reply    1
-- Cost     O(1)
-- Repeat   harmless: it states what is so
redis.call('HLEN', prefix .. 'values') -- what is something else ends the script here
local begun = begin_shard()
if begun == 1 then
  redis.call('HSETNX', prefix .. 'values', '', '0')
end
return begun
