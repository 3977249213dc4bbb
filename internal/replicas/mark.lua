-- replicas.mark(K) -> count
--
-- Writes something that every replica is sent, whatever the server holds and
-- however full it is, so that a WAIT behind it waits for the replicas.
--
-- Touches  none, waits
-- KEYS[1]  K: what the server's bookkeeping keys begin with
-- ARGV     none
-- Reply    how many marks were made
-- Cost     O(1)
-- Repeat   harmless: it counts once more
redis.call('DEL', prefix .. 'none') -- a full server does not refuse it, nor then what follows
return redis.call('INCR', prefix .. 'waits')
