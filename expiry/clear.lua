-- expiry.clear(K) shards [name ...] -> 1
--
-- Removes hashes of a namespace that is being deleted, or without names an empty shard.
-- Memory is freed in the background.
--
-- Needs    hashes
-- Touches  K, lanes:0, lanes:1, h:ARGV[2...], t:ARGV[2...]
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV     names of hashes, at most 1,000
-- Reply    1
-- Cost     O(log N) a hash, whatever its size
-- Repeat   harmless: removed hashes are not found again
redis.call('ZCARD', due) -- fails for another type
for i = 2, #ARGV do
  if ARGV[i] == '' then
    return redis.error_reply('ERR a hash has a name')
  end
end
for i = 2, #ARGV do
  redis.call('UNLINK', prefix .. 'h:' .. ARGV[i], prefix .. 't:' .. ARGV[i])
  redis.call('ZREM', due, ARGV[i])
end
if #ARGV == 1 and redis.call('ZCARD', due) < 2 then
  redis.call('UNLINK', K, due, prefix .. 'lanes:0', prefix .. 'lanes:1')
end
return 1
