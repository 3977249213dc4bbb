-- replicas.mark(K) -> count
--
-- Makes a write that every replica receives, also on a full server, so that a WAIT
-- behind it waits for the replicas.
--
-- Touches  none, waits
-- KEYS[1]  K: the prefix of the server's bookkeeping keys
-- ARGV     none
-- Reply    how many marks were made
-- Cost     O(1)
-- Repeat   harmless: it counts once more
redis.call('DEL', prefix .. 'none') -- a full server accepts it, and then the later commands
return redis.call('INCR', prefix .. 'waits')
