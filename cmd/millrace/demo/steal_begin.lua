-- demo.steal_begin(K) id life data -> 1 or 0
--
-- Begins a visitor's session: its data, and when it may be collected. From its
-- due time on a session counts as gone, whether it was collected or not.
--
-- Touches  K, due
-- KEYS[1]  K: a hash of sessions
-- ARGV[1]  id: of the session
-- ARGV[2]  life: in milliseconds, from now
-- ARGV[3]  data: of the session
-- Reply    1 when it is new, else 0
-- Cost     O(log N)
-- Repeat   harmless: the session begins again
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('ZADD', prefix .. 'due', string.format('%.0f', now + tonumber(ARGV[2])), ARGV[1])
return redis.call('HSET', K, ARGV[1], ARGV[3])
