-- expiry.len(K) shards name -> number of fields
--
-- Counts the fields that are there, without the expired ones. It writes nothing.
--
-- Needs    shard
-- Touches  K, h:ARGV[2], t:ARGV[2]
-- Without  h:ARGV[2]
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name: of the hash
-- Reply    how many there are; the error INDEX if its index was lost, so that nobody knows
-- Cost     O(log N)
-- Repeat   harmless: it only reads
local t, stored = prefix .. 't:' .. ARGV[2], redis.call('HLEN', prefix .. 'h:' .. ARGV[2])
if stored > 0 and not redis.call('ZSCORE', t, '') then
  return redis.error_reply('INDEX the deadlines of the hash are lost')
end
return stored - redis.call('ZCOUNT', t, '-inf', now)
