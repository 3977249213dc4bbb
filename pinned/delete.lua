-- pinned.delete(K) shards name ... -> number
--
-- Removes values before their deadline, and the claims of their keys. A full server accepts it.
--
-- Needs    lane, values
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV     names, at most 100
-- Reply    how many of them existed, without expired ones
-- Cost     O(log N) a name, of the shard's N values
-- Repeat   harmless: the lane keeps the reply
if answered then
  return tonumber(answered)
end
for i = 2, #ARGV do
  if ARGV[i] == '' or string.byte(ARGV[i]) == 0 or #ARGV > 101 then
    return redis.error_reply('ERR at most 100 names, none of them empty or with a byte 0 first')
  end
end
local deleted = 0
for i = 2, #ARGV do
  local deadline = redis.call('ZSCORE', due, ARGV[i])
  local gone = redis.call('HDEL', values, ARGV[i])
  redis.call('HDEL', values, '\0' .. ARGV[i])
  redis.call('ZREM', due, ARGV[i], '\0' .. ARGV[i])
  if not deadline or tonumber(deadline) > now then
    deleted = deleted + gone
  end
end
if deleted > 0 then
  count('deleted', deleted)
  answer(string.format('%.0f', deleted))
end
return deleted
