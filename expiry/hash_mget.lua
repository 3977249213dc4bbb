-- expiry.hash_mget(K) name field [field ...] -> {value, ttl, ...}
--
-- Brings several fields as they are at one moment. It writes nothing.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- ARGV     fields, at most 1,000
-- Reply    for each field the value and the milliseconds that are left, -1 without
--          a deadline; nil and -2 if there is no such field
-- Cost     O(fields)
-- Repeat   harmless: it only reads
local reply, values = {}, redis.call('HMGET', h, unpack(ARGV, 2))
for i, score in ipairs(redis.call('ZMSCORE', t, unpack(ARGV, 2))) do
  local left = left_of(score)
  local there = values[i] and left ~= 0
  reply[2 * i - 1], reply[2 * i] = there and values[i], there and left or -2
end
return reply
