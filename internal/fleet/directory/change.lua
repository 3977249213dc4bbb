-- directory.change(K) epoch next map change -> {changed, epoch}
--
-- Replaces the map if the present one still has the epoch that the caller saw, and
-- keeps what makes it of the one before, for those who have that. The last 32 of these
-- are kept.
--
-- Touches  K, changes
-- KEYS[1]  K
-- ARGV[1]  epoch: of the map that is to be replaced, 0 for none
-- ARGV[2]  next: the epoch of the new one, higher
-- ARGV[3]  map: the new one's text
-- ARGV[4]  change: what makes it of the one before, '' if that is not known
-- Reply    {1, next} if it was replaced; {0, epoch of the present one} if not
-- Cost     O(1)
-- Repeat   harmless: what is stored already is left alone and counts as done
local stored = redis.call('HMGET', K, 'epoch', 'map')
local epoch = stored[1] or '0'
if epoch == ARGV[2] and stored[2] == ARGV[3] then
  return {1, tonumber(epoch)}
end
if epoch ~= ARGV[1] or tonumber(ARGV[2]) <= tonumber(epoch) then
  return {0, tonumber(epoch)}
end
redis.call('HSET', K, 'version', '1', 'epoch', ARGV[2], 'map', ARGV[3])
local changes = K .. ':changes'
if ARGV[4] == '' then
  redis.call('DEL', changes)
else
  redis.call('ZREMRANGEBYSCORE', changes, ARGV[1], '+inf') -- of a map that was lost
  redis.call('ZADD', changes, ARGV[1], ARGV[4])
  redis.call('ZREMRANGEBYRANK', changes, 0, -33)
end
return {1, tonumber(ARGV[2])}
