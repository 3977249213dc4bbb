-- lease.release(K) token -> {released, now, waiters}
--
-- Ends a lease: gives its key a TTL of a minute, which keeps the fence, and the token for
-- repeats. If the fence is ahead of the clock, the minute begins when the clock has passed it.
-- Without the key, the next fence is the clock.
--
-- Needs    open
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  token: of the holder
-- Reply    1 if this token released it, now or last, 0 if it is lost; the server's time in
--          Unix milliseconds; the waiting processes to wake, each with its last request, as in
--          {ID MS;}
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
local ms = '60000' -- keep, as text, which is faster
if fence > stamp then
  ms = string.format('%.0f', keep + (fence - stamp) / 1000)
end
redis.call('PEXPIRE', K, ms) -- a full server accepts it
return {1, now, waiters}
