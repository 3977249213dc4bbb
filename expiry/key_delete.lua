-- expiry.key_delete(K) id name ... -> number
--
-- Removes values before their deadline. It frees memory and is never refused.
--
-- KEYS[1]  K
-- ARGV[1]  id: of the request
-- ARGV     names, at most 100; last, the number of the try
-- Reply    how many of them were there; one that was overdue was not
-- Cost     O(log N) a name, of the shard's N values
-- Repeat   harmless: the answer is replayed by id
local id = ARGV[1]
local before = ARGV[#ARGV] ~= '1' and reqid_recall(id)
if before then
  return tonumber(before)
end
redis.call('ZCARD', due) -- fails here if it is something else
local alive = {}
for i = 2, #ARGV - 1 do
  local key = value_key(ARGV[i])
  local deadline = deadline_of(key)
  if not deadline then
    return redis.error_reply('EXPIRYBROKEN ' .. key .. ' is no value')
  end
  alive[i] = deadline > now
end
local deleted = 0
for i = 2, #ARGV - 1 do
  local gone = redis.call('UNLINK', value_key(ARGV[i]))
  redis.call('ZREM', due, ARGV[i])
  if alive[i] then
    deleted = deleted + gone
  end
end
if deleted > 0 then
  count('deleted', deleted)
  reqid_remember(id, string.format('%.0f', deleted))
end
return deleted
