-- lease.reap(K) -> {removed, again}
--
-- Removes an abandoned lease: a minute after its deadline, if no other holder took it. A lease
-- whose fence is ahead of the clock stays until the clock has passed it, because the next
-- fence must be larger. If the clock was set back, it stores the deadline by the present clock.
--
-- Needs    open
-- Touches  K
-- KEYS[1]  K
-- ARGV     none
-- Reply    1 if it was removed, else 0; in how many milliseconds to visit it again, -1 for
--          never
-- Cost     O(1)
-- Repeat   harmless: the second run finds nothing
if not found then
  return {0, -1}
end
local left = redis.call('PTTL', K)
if left >= 0 then -- it was released, and expires
  return {0, left + 1}
end
if moved then
  redis.call('PERSIST', K) -- a full server accepts this first write
  redis.call('SET', K, value)
end
local again = math.max(deadline + keep - now, math.ceil((fence + 1 - stamp) / 1000)) + 1
if again > 1 then
  return {0, again}
end
return {redis.call('UNLINK', K), -1}
