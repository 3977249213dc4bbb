-- lease.reap(K) -> {removed, again}
--
-- Removes a lease that was abandoned: its holder let the deadline come and a minute go
-- by, and nobody took it over. One whose fence lies ahead of the clock stays until the
-- clock has passed it, because without it the next fence would be smaller.
--
-- Needs    open
-- Touches  K
-- KEYS[1]  K
-- ARGV     none
-- Reply    1 when it was removed, else 0; in how many milliseconds to look at it again,
--          -1 when nothing is left to be looked at
-- Cost     O(1)
-- Repeat   harmless: the second run finds nothing
if not found then
  return {0, -1}
end
local left = redis.call('PTTL', K)
if left >= 0 then -- it was released, and leaves by itself
  return {0, left + 1}
end
local again = math.max(deadline + keep - now, math.ceil((fence + 1 - stamp) / 1000)) + 1
if again > 1 then
  return {0, again}
end
return {redis.call('UNLINK', K), -1}
