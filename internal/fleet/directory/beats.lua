-- directory.beats(K) beats -> 1
--
-- Stores the newest known beat of each partition.
--
-- Touches  beats
-- KEYS[1]  K
-- ARGV[1]  beats: a JSON object, from a partition's number to its epoch, a space and its count
-- Reply    1
-- Cost     O(partitions)
-- Repeat   harmless: the same is stored
redis.call('SET', prefix .. 'beats', ARGV[1])
return 1
