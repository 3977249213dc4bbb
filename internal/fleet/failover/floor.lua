-- failover.floor(K) floor -> floor
--
-- Sets the floor of a member that is being promoted.
--
-- Touches  floor, none
-- KEYS[1]  K
-- ARGV[1]  floor: an epoch above all that members know
-- Reply    the floor
-- Cost     O(1)
-- Repeat   harmless: it is set to the same
redis.call('DEL', K .. ':none') -- makes a full server accept it and what follows
redis.call('SET', K .. ':floor', ARGV[1])
return ARGV[1]
