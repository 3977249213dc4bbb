-- lease.release(K) token -> {released, waited, now}
--
-- Ends a lease before its deadline. The fence stays for a minute, as does the token,
-- so that a repeat is told the same. What stays is no lease any more, so it leaves by
-- a Redis TTL, and nothing is lost if it is evicted: the next fence then comes from
-- the clock alone.
--
-- Needs    open
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  token: who holds it
-- Reply    1 when this token released it, now or last, 0 when it is lost; 1 when
--          somebody waits for it and is to be woken, else 0; the server's time in
--          Unix milliseconds
-- Cost     O(1)
-- Repeat   harmless: the token of the last release is known
if not held or owner ~= ARGV[1] then
  owner = redis.call('HGET', K, 'released')
  return {owner == ARGV[1] and 1 or 0, owner == ARGV[1] and waited and 1 or 0, now}
end
redis.call('HDEL', K, 'token', 'deadline_ms', 'metadata') -- a full server does not refuse it
redis.call('HSET', K, 'released', ARGV[1])
redis.call('PEXPIRE', K, keep)
return {1, waited and 1 or 0, now}
