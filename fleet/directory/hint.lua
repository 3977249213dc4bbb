-- directory.hint(K) hint life -> 1
--
-- Remembers what a client cannot reach, and forgets what is due. The ten thousand
-- that are due last are kept, so that a storm of them does not fill the
-- directory.
--
-- Touches  hints
-- KEYS[1]  K
-- ARGV[1]  hint: its JSON, always the same for the same hint
-- ARGV[2]  life: for how long to remember it, in milliseconds
-- Reply    1
-- Cost     O(log N) for N hints, and what is forgotten
-- Repeat   harmless: the same hint is remembered once
local hints = prefix .. 'hints'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', hints, '-inf', string.format('%.0f', now))
redis.call('ZADD', hints, string.format('%.0f', now + tonumber(ARGV[2])), ARGV[1])
redis.call('ZREMRANGEBYRANK', hints, 0, -10001)
return 1
