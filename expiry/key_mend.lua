-- expiry.key_mend(K) name -> 1 or 0
--
-- Puts a value to rights: takes a Redis TTL from it, by which a server could evict
-- it, and enters it into the index if it is not there with its deadline.
--
-- KEYS[1]  K
-- ARGV[1]  name
-- Reply    1 when there was something wrong
-- Cost     O(log N) of the shard's N values
-- Repeat   harmless: what is right stays as it is
local indexed = tonumber(redis.call('ZSCORE', due, ARGV[1]) or 0)
local key = value_key(ARGV[1])
local deadline = deadline_of(key)
if not deadline then
  return redis.error_reply('EXPIRYBROKEN ' .. key .. ' is no value')
elseif deadline == 0 then
  return 0
end
local mended = redis.call('PERSIST', key) -- a full server does not refuse it
if indexed ~= deadline then
  redis.call('ZADD', due, stamp(deadline), ARGV[1])
  if fresh then
    redis.call('HSET', K, 'version', '1')
  end
  mended = 1
end
return mended
