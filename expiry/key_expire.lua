-- expiry.key_expire(K) id name ttl -> 1 or 0
--
-- Moves the deadline of a value, nearer or farther, and takes a Redis TTL from
-- it that somebody else gave it: that is a first write which a full server does
-- not refuse. Two overdue values of the shard go on the way.
--
-- KEYS[1]  K
-- ARGV[1]  id: of the request
-- ARGV[2]  name
-- ARGV[3]  ttl: in milliseconds from now, at least 1
-- ARGV     last, the number of the try
-- Reply    1 when it has the new deadline, 0 when it is not there
-- Cost     O(log N) of the shard's N values
-- Repeat   harmless: the answer is replayed by id
local id, name = ARGV[1], ARGV[2]
if ARGV[#ARGV] ~= '1' and reqid_recall(id) then
  return 1
end
redis.call('ZCARD', due) -- fails here if it is something else
local key = value_key(name)
local deadline = deadline_of(key)
if not deadline then
  return redis.error_reply('EXPIRYBROKEN ' .. key .. ' is no value')
elseif deadline <= now then
  return 0
end
local at = stamp(soon + ARGV[3])
redis.call('PERSIST', key)
redis.call('ZADD', due, at, name)
redis.call('SETRANGE', key, 0, at)
reqid_remember(id, '1')
reap(2)
return 1
