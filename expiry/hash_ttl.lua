-- expiry.hash_ttl(K) name field [field ...] -> {ttl, ...}
--
-- Tells how long fields stay. It writes nothing.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- ARGV     fields, at most 1,000
-- Reply    for each field the milliseconds that are left, -1 without a deadline, -2
--          if there is no such field
-- Cost     O(fields)
-- Repeat   harmless: it only reads
local reply = {}
for i, score in ipairs(redis.call('ZMSCORE', t, unpack(ARGV, 2))) do
  local left = left_of(score)
  local there = left ~= 0 and redis.call('HEXISTS', h, ARGV[i + 1]) == 1
  reply[i] = there and left or -2
end
return reply
