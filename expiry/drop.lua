-- expiry.drop(K) shards name -> number of fields
--
-- Removes a hash of any size, also on a full server. Memory is freed in the background.
--
-- Needs    lane, hash
-- Touches  K
-- Without  h:ARGV[2]
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name: of the hash
-- Reply    how many fields existed, without expired ones
-- Cost     O(log N)
-- Repeat   harmless: the lane keeps the reply
if answered then
  return tonumber(answered)
end
local deleted = fields - redis.call('ZCOUNT', t, '-inf', now)
redis.call('ZREM', due, name)
if fields > 0 or redis.call('EXISTS', h) == 1 then
  redis.call('UNLINK', h, t)
end
if fields > deleted then
  count('reaped', fields - deleted)
end
if deleted > 0 then
  count('deleted', deleted)
  answer(tostring(deleted))
end
return deleted
