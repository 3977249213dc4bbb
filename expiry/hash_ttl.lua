-- expiry.hash_ttl(K) shards name field [field ...] -> {ttl, ...}
--
-- Tells how long fields stay. It writes nothing.
--
-- Needs    shard
-- Touches  K, t:ARGV[2]
-- Without  t:ARGV[2]
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name: of the hash
-- ARGV     fields, at most 1,000
-- Reply    for each field the milliseconds that are left, -1 without a deadline, -2
--          if there is no such field
-- Cost     O(log N) a field
-- Repeat   harmless: it only reads
local reply = {}
for i, score in ipairs(redis.call('ZMSCORE', prefix .. 't:' .. ARGV[2], unpack(ARGV, 3))) do
  local deadline = time_of(score)
  reply[i] = deadline == math.huge and -1 or deadline > now and math.max(1, deadline - soon) or -2
end
return reply
