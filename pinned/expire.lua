-- pinned.expire(K) shards name ttl -> 1 or 0
--
-- Moves the deadline of a value, nearer or farther. It begins with a write that a full
-- server does not refuse. Two overdue values of the shard go on the way.
--
-- Needs    lane, values
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name
-- ARGV[3]  ttl: in milliseconds from now, at least 1
-- Reply    1 when it has the new deadline, 0 when it is not there
-- Cost     O(log N) of the shard's N values, and O(length of the value)
-- Repeat   harmless: the answer is known by its lane
if answered then
  return 1
end
local name = ARGV[2]
local value = redis.call('HGET', values, name)
local deadline = deadline_of(value)
if not deadline then
  return redis.error_reply('BROKEN ' .. name .. ' is no value')
elseif deadline <= now then
  return 0
end
deadline = soon + ARGV[3]
redis.call('HDEL', K, '') -- a first write that a full server does not refuse
redis.call('ZADD', due, string.format('%.0f', deadline), name)
redis.call('HSET', values, name, head_of(deadline) .. string.sub(value, 9))
answer('1')
reap(2)
return 1
