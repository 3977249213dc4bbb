-- expiry.drop(K) shards name -> number of fields
--
-- Removes a whole hash. Its memory is freed in the background, so the size does
-- not matter, and a full server does not refuse it.
--
-- Needs    lane, hash
-- Touches  K
-- Without  h:ARGV[2]
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name: of the hash
-- Reply    how many fields were there, without the expired ones
-- Cost     O(log N)
-- Repeat   harmless: the answer is known by its lane
if answered then
  return tonumber(answered)
end
local deleted = fields - redis.call('ZCOUNT', t, '-inf', now)
redis.call('ZREM', due, name)
if fields > 0 then
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
