-- directory.hints(K) -> {hint...}
--
-- Lists what clients cannot reach.
--
-- Touches  hints
-- KEYS[1]  K
-- ARGV     none
-- Reply    the hints, as they were told, of which ten thousand are kept
-- Cost     O(log N + M) for M of N hints that are not yet to be forgotten
-- Repeat   harmless: nothing is written
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZRANGEBYSCORE', prefix .. 'hints', string.format('(%.0f', now), '+inf')
