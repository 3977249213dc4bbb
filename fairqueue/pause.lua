-- fairqueue.pause(K) on -> 1 or 0
--
-- Switches reading off or on. Messages in flight may be finished meanwhile, and
-- writing goes on.
--
-- Needs    open
-- KEYS[1]  K
-- ARGV[1]  on: '1' to pause, '0' to resume
-- Reply    1, or 0 when there is no such queue
-- Cost     O(1)
-- Repeat   harmless: it states what is so
if streams == 0 then
  return 0
end
local wake = K .. ':wake'
local has = redis.call('LLEN', wake)
redis.call('HDEL', K, 'paused') -- a first write that a full server does not refuse
if ARGV[1] == '1' then
  redis.call('HSET', K, 'paused', '1')
else
  for _ = 1, 64 - has do
    redis.call('LPUSH', wake, '1')
  end
end
return 1
