-- expiry.key_ttl(K) name -> ttl
--
-- Tells how long a value still lives. It writes nothing.
--
-- KEYS[1]  K
-- ARGV[1]  name
-- Reply    milliseconds, 0 when it is not there
-- Cost     O(1)
-- Repeat   harmless: it writes nothing
local key = value_key(ARGV[1])
local deadline = deadline_of(key)
if not deadline then
  return redis.error_reply('EXPIRYBROKEN ' .. key .. ' is no value')
end
return left_of(deadline)
