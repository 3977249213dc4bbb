-- lease.acquire(K) token ttl metadata waits -> {outcome, fence, remaining, deadline, metadata}
--
-- Takes a lease that nobody holds, or whose deadline has come. The fence of an
-- acquisition is larger than every one before it: it comes from the clock, and
-- goes up by one when the clock has not moved or was set back. A token that holds
-- the lease already adopts it as it is, so that a repeat is the same acquisition.
--
-- The first write for a lease that is free is one that a full server refuses: a
-- lease that could not be stored is not held. What a release left behind may have a TTL; a lease has none.
--
-- Needs    open
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  token: who acquires, 1 to 64 bytes
-- ARGV[2]  ttl: in milliseconds, from now
-- ARGV[3]  metadata: for people, at most 4,096 bytes
-- ARGV[4]  waits: '1' when who finds it held will wait to be woken by a release
-- Reply    {1, fence, milliseconds until the deadline, the deadline in Unix
--          milliseconds, metadata} for the holder; {0, the same of whoever holds
--          it} when it is held
-- Cost     O(1)
-- Repeat   harmless: the second run adopts what the first acquired
if held then
  local outcome = owner == ARGV[1] and 1 or 0
  if outcome == 0 and ARGV[4] == '1' then
    redis.call('HDEL', K, '') -- a full server does not refuse it, nor then what follows
    redis.call('HSET', K, 'waited_ms', string.format('%.0f', now))
  end
  return {outcome, fence, deadline - now, deadline, metadata or ''}
end
local ttl = tonumber(ARGV[2])
fence = math.max(fence + 1, now_us)
deadline = now + ttl
redis.call('HSET', K, 'version', '1', 'token', ARGV[1], 'fence', string.format('%.0f', fence),
  'deadline_ms', string.format('%.0f', deadline), 'metadata', ARGV[3])
redis.call('PERSIST', K)
return {1, fence, ttl, deadline, ARGV[3]}
