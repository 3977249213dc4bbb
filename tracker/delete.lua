-- tracker.delete(K) -> number of keys
--
-- Removes a tracker whole, whatever its keys hold.
--
-- KEYS[1]  K
-- ARGV     none
-- Reply    how many keys there were
-- Cost     O(1); the memory is freed in the background
-- Repeat   harmless: the second run finds nothing and counts 0
local K = KEYS[1]
return redis.call('UNLINK', K, K .. ':ids')
