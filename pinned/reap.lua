-- pinned.reap(K) shards most -> {number, more}
--
-- Removes expired values, those first that are overdue for longest. The first write is one
-- that a full server accepts.
--
-- Needs    values, tidy
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  most: how many entries to read
-- Reply    how many it read; 1 if more are due, else 0
-- Cost     O(log N) each, of the shard's N values
-- Repeat   harmless: removed values are not found again
if not string.find(ARGV[2], '^%d+$') then
  return redis.error_reply('ERR not a number: ' .. ARGV[2])
end
redis.call('HDEL', K, '') -- a full server accepts this first write
tidy_lanes()
local looked, more = reap(tonumber(ARGV[2]))
return {looked, more and 1 or 0}
