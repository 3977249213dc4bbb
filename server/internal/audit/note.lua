-- audit.note(K) entry max -> nothing
--
-- Enters an action, the latest first.
--
-- KEYS[1]  K: mr:audit
-- ARGV[1]  entry: a JSON object without a line end
-- ARGV[2]  max: how many entries stay
-- Reply    1
-- Cost     O(1)
-- Repeat   enters it twice
local time = redis.call('TIME')
redis.call('LTRIM', K, 0, ARGV[2] - 2) -- a full server does not refuse it, nor then what follows
redis.call('LPUSH', K, string.format('%d%03d', time[1], math.floor(time[2] / 1000)) .. ' ' .. ARGV[1])
return 1
