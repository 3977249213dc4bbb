-- expiry.hash_drop(K) name id -> number of fields
--
-- Removes a whole hash. Its memory is freed in the background, so the size does
-- not matter, and a full server does not refuse it.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- ARGV[2]  id: of the request
-- ARGV     last, the number of the try
-- Reply    how many fields were there, without the expired ones
-- Cost     O(log N)
-- Repeat   harmless: the answer is replayed by id
local id = ARGV[2]
local before = ARGV[#ARGV] ~= '1' and reqid_recall(id)
if before then
  return tonumber(before)
end
local stored = redis.call('HLEN', h)
local deleted = math.max(0, stored - redis.call('ZCOUNT', t, '-inf', now))
redis.call('UNLINK', h, t)
redis.call('ZREM', due, name)
if stored > deleted then
  count('reaped', stored - deleted)
end
if deleted > 0 then
  count('deleted', deleted)
  reqid_remember(id, tostring(deleted))
end
return deleted
