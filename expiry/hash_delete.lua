-- expiry.hash_delete(K) name id field [field ...] -> number of fields
--
-- Removes fields. It begins with a write that a full server does not refuse.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- ARGV[2]  id: of the request
-- ARGV     fields, at most 1,000
-- ARGV     last, the number of the try
-- Reply    how many of them were there, without the expired ones
-- Cost     O(log N) a field
-- Repeat   harmless: the answer is replayed by id
local id, last = ARGV[2], #ARGV - 1
local before = ARGV[#ARGV] ~= '1' and reqid_recall(id)
if before then
  return tonumber(before)
end

local stale = {}
for i, score in ipairs(redis.call('ZMSCORE', t, unpack(ARGV, 3, last))) do
  if expired(score) then
    stale[#stale + 1] = ARGV[i + 2]
  end
end
local reaped = #stale > 0 and redis.call('HDEL', h, unpack(stale)) or 0
local deleted = redis.call('HDEL', h, unpack(ARGV, 3, last))
tidy(redis.call('ZREM', t, unpack(ARGV, 3, last)) > 0)
if reaped > 0 then
  count('reaped', reaped)
end
if deleted > 0 then
  count('deleted', deleted)
  reqid_remember(id, tostring(deleted))
end
return deleted
