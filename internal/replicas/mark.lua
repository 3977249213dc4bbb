-- replicas.mark(K) -> count
--
-- Writes something that every replica is sent, whatever the server holds and
-- however full it is, so that a WAIT behind it waits for the replicas.
--
-- KEYS[1]  K: the base of the server's bookkeeping keys
-- ARGV     none
-- Reply    how many marks were made
-- Cost     O(1)
-- Repeat   harmless: it counts once more
local K = KEYS[1]
redis.call('DEL', K .. ':none') -- a full server does not refuse it, nor then what follows
return redis.call('INCR', K .. ':waits')
