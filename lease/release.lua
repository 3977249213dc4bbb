-- lease.release(K) token -> {released, now, waiters}
--
-- Ends a lease before its deadline: it gives the key a TTL. The fence stays for a minute,
-- as does the token, so that a repeat is told the same. What stays is no lease any more,
-- and nothing is lost if it is evicted: the next fence then comes from the clock alone.
--
-- Needs    open
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  token: who holds it
-- Reply    1 when this token released it, now or last, 0 when it is lost; the server's
--          time in Unix milliseconds; which processes wait and are to be woken, and when
--          each came last, as in {ID MS;}
-- Cost     O(1)
-- Repeat   harmless: the token of the last release is known
local waiters = ''
if found and string.byte(value, -1) == 59 then
  waiters = select(4, rest())
end
if owner ~= ARGV[1] or now >= deadline then
  local released = found and select(2, rest())
  if found and redis.call('PTTL', K) ~= -1 then
    released = owner
  end
  local own = released == ARGV[1]
  return {own and 1 or 0, now, own and waiters or ''}
end
redis.call('PEXPIRE', K, '60000') -- keep, as text: a number is printed first. A full server does not refuse it
return {1, now, waiters}
