-- lease.reap(K) -> 1 or 0
--
-- Removes a lease that was abandoned: its holder let the deadline come and an
-- hour go by, and nobody took it over. One whose fence lies ahead of the clock
-- stays, because without it the next fence would be smaller.
--
-- Needs    open
-- Touches  K
-- KEYS[1]  K
-- ARGV     none
-- Reply    1 when it was removed, else 0
-- Cost     O(1)
-- Repeat   harmless: the second run finds nothing
if not owner or held or deadline + keep > now or fence >= now_us then
  return 0
end
return redis.call('UNLINK', K)
