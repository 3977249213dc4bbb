-- lease.refresh(K) token ttl -> {held, token, fence, remaining, deadline, metadata}
--
-- Moves the deadline of a lease that its holder still holds. One that has
-- expired is lost, even if nobody else took it: in between it was anybody's. The
-- deadline never moves nearer, so a holder whose reply was lost is never wrong
-- about how long it is safe.
--
-- Needs    open, held
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  token: who holds it
-- ARGV[2]  ttl: in milliseconds, from now
-- Reply    what lease.show says of the lease from now on; {0, '', 0, 0, 0, ''} when
--          it is lost
-- Cost     O(1)
-- Repeat   harmless: the deadline is counted from the last run
if not held or owner ~= ARGV[1] then
  return {0, '', 0, 0, 0, ''}
end
deadline = string.format('%.0f', math.max(deadline, now + ARGV[2]))
redis.call('PERSIST', K) -- a first write that a full server does not refuse
redis.call('SET', K, string.sub(value, 1, 19) .. deadline .. string.sub(value, 33))
return {1, owner, fence, deadline - now, deadline, metadata}
