-- expiry.hash_len(K) name -> number of fields
--
-- Counts the fields that are there, without the expired ones. It writes nothing.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- Reply    how many there are
-- Cost     O(log N)
-- Repeat   harmless: it only reads
return math.max(0, redis.call('HLEN', h) - redis.call('ZCOUNT', t, '-inf', now))
