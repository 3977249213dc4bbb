-- expiry.key_set(K) id name ttl condition payload -> 1 or 0
--
-- Stores a value until its deadline. The index comes first, and its write is one
-- that a full server refuses: then nothing was changed, and if it is not refused,
-- nothing after it is. The value has no Redis TTL, not even one that somebody
-- gave to the one before. Two overdue values of the shard go on the way.
--
-- KEYS[1]  K
-- ARGV[1]  id: of the request
-- ARGV[2]  name
-- ARGV[3]  ttl: in milliseconds from now, at least 1
-- ARGV[4]  condition: 'none' to store only what is not there, 'exist' only what
--          is, '' for either
-- ARGV[5]  payload
-- ARGV     last, the number of the try
-- Reply    1 when it was stored, else 0
-- Cost     O(log N) of the shard's N values, and O(length of the payload)
-- Repeat   harmless: the answer is replayed by id, so a value that was stored is not
--          stored over a later one, and not refused for want of memory
local id, name, condition = ARGV[1], ARGV[2], ARGV[4]
if ARGV[#ARGV] ~= '1' and reqid_recall(id) then
  return 1
end
local key = value_key(name)
local deadline = deadline_of(key)
if not deadline then
  return redis.error_reply('EXPIRYBROKEN ' .. key .. ' is no value')
elseif condition == 'none' and deadline > now or condition == 'exist' and deadline <= now then
  return 0
end
local at = stamp(soon + ARGV[3])
local value = at .. ' ' .. ARGV[5]
redis.call('ZADD', due, at, name)
redis.call('SET', key, value)
count('set', 1)
reqid_remember(id, '1')
reap(2)
return 1
