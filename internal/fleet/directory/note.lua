-- directory.note(K) event -> 1
--
-- Adds an event to the agents' log, which keeps the newest 200.
--
-- Touches  log
-- KEYS[1]  K
-- ARGV[1]  event: its JSON without the time, which the server puts in front
-- Reply    1
-- Cost     O(1)
-- Repeat   harmless: the event is there twice
local log = prefix .. 'log'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('LPUSH', log, string.format('%.0f', now) .. ' ' .. ARGV[1])
redis.call('LTRIM', log, 0, 199)
return 1
