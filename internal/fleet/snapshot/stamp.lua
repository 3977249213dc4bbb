-- snapshot.stamp(K) at -> at
--
-- Stores in the data of a partition when a snapshot of it was requested: no copy with this
-- time is older.
--
-- Touches  saved, none
-- KEYS[1]  K
-- ARGV[1]  at: the time in milliseconds, by the directory's clock
-- Reply    at
-- Cost     O(1)
-- Repeat   harmless: the same is stored
redis.call('DEL', K .. ':none') -- makes a full server accept it and what follows
redis.call('SET', K .. ':saved', ARGV[1])
return ARGV[1]
