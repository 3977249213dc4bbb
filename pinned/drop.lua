-- pinned.drop(K) shards -> 1
--
-- Removes a shard with all its values. Memory is freed in the background.
--
-- Needs    shard
-- Touches  K, values, due, lanes:0, lanes:1
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- Reply    1
-- Cost     O(1)
-- Repeat   harmless: the second call finds no shard
redis.call('UNLINK', K, prefix .. 'values', prefix .. 'due', prefix .. 'lanes:0', prefix .. 'lanes:1')
return 1
