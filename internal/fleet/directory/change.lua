-- directory.change(K) epoch next map change -> {changed, epoch}
--
-- Replaces the map if the present one still has the epoch that the caller saw, and
-- stores the difference for clients that have the former map. It keeps 32 of these.
--
-- Touches  K, changes
-- KEYS[1]  K
-- ARGV[1]  epoch: of the map to replace, 0 for none
-- ARGV[2]  next: the epoch of the new map, higher
-- ARGV[3]  map: the text of the new map
-- ARGV[4]  change: the difference from the former map, '' if that is not known
-- Reply    {1, next} if it was replaced; {0, epoch of the present one} if not
-- Cost     O(1)
-- Repeat   harmless: a map that is stored already counts as changed
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
  redis.call('ZREMRANGEBYSCORE', changes, ARGV[1], '+inf') -- differences to a map that was lost
  redis.call('ZADD', changes, ARGV[1], ARGV[4])
  redis.call('ZREMRANGEBYRANK', changes, 0, -33)
end
return {1, tonumber(ARGV[2])}
