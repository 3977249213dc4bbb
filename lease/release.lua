-- lease.release(K) token -> 1 or 0
--
-- Ends a lease before its deadline and wakes one who waits for it. The fence
-- stays for an hour, as does the token, so that a repeat is told the same. What
-- stays is no lease any more, so it leaves by a Redis TTL, and nothing is lost if
-- it is evicted: the next fence then comes from the clock alone.
--
-- KEYS[1]  K
-- ARGV[1]  token: who holds it
-- Reply    1 when this token released it, now or last; 0 when it is lost
-- Cost     O(1)
-- Repeat   harmless: the token of the last release is known
if not held or owner ~= ARGV[1] then
  return redis.call('HGET', K, 'released') == ARGV[1] and 1 or 0
end
redis.call('HDEL', K, 'token', 'deadline_ms', 'metadata') -- a full server does not refuse it
redis.call('HSET', K, 'released', ARGV[1])
redis.call('PEXPIRE', K, keep)
if waited and redis.call('EXISTS', wake) == 0 then
  redis.pcall('LPUSH', wake, '1')
  redis.call('PEXPIRE', wake, 10000)
end
return 1
