-- expiry.len(K) shards name -> number of fields
--
-- Counts the fields, without expired ones.
--
-- Needs    shard
-- Touches  K, h:ARGV[2], t:ARGV[2]
-- Without  h:ARGV[2]
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name: of the hash
-- Reply    the number; the error INDEX if the hash has lost its index
-- Cost     O(log N)
-- Repeat   harmless: it only reads
local h, t = prefix .. 'h:' .. ARGV[2], prefix .. 't:' .. ARGV[2]
local stored = redis.call('HLEN', h) - (redis.call('HGET', h, '') and 1 or 0)
if stored > 0 and not redis.call('ZSCORE', t, '') then
  return redis.error_reply('INDEX the deadlines of the hash are lost')
end
return stored - redis.call('ZCOUNT', t, '-inf', now)
