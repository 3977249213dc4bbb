-- pinned.expire(K) shards name ttl -> 1 or 0
--
-- Changes the deadline of a value, and removes two expired values of the shard. The first
-- write is one that a full server accepts.
--
-- Needs    lane, values
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name
-- ARGV[3]  ttl: in milliseconds from now, at least 1
-- Reply    1 if it has the new deadline, 0 if there is no such value
-- Cost     O(log N) of the shard's N values, and O(length of the value)
-- Repeat   harmless: the lane keeps the reply
if answered then
  return 1
end
local name = ARGV[2]
local wanted = string.find(ARGV[3], '^[1-9]%d*$') and soon + ARGV[3] or math.huge
if name == '' or string.byte(name) == 0 or wanted >= 281474976710655 then
  return redis.error_reply('ERR invalid arguments of a deadline')
end
local value = redis.call('HGET', values, name)
local deadline = deadline_of(value)
if not deadline then
  return redis.error_reply('BROKEN ' .. name .. ' is no value')
elseif deadline <= now then
  return 0
end
deadline = wanted
redis.call('HDEL', K, '') -- a full server accepts this first write
redis.call('ZADD', due, string.format('%.0f', deadline), name)
redis.call('HSET', values, name, head_of(deadline) .. string.sub(value, 9))
answer('1')
reap(2)
return 1
