-- demo.steal_collect(K) limit -> {overdue, ...}
--
-- One slice of upkeep: removes the sessions that are due longest. It takes them
-- from the index, so that it never looks at one that is not due.
--
-- Touches  K, due
-- KEYS[1]  K: a hash of sessions
-- ARGV[1]  limit: how many sessions to remove at most
-- Reply    for each session that was removed, for how many milliseconds it was due
-- Cost     O(limit * log N)
-- Repeat   harmless: the second run takes others, and those of the first are
--          told to nobody
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local found = redis.call('ZRANGEBYSCORE', prefix .. 'due', '-inf', string.format('%.0f', now),
  'WITHSCORES', 'LIMIT', '0', ARGV[1])
local overdue = {}
for i = 1, #found, 2 do
  redis.call('ZREM', prefix .. 'due', found[i])
  redis.call('HDEL', K, found[i])
  overdue[#overdue + 1] = now - tonumber(found[i + 1])
end
return overdue
