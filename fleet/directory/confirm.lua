-- directory.confirm(K) epoch -> {epoch[, map]}
--
-- Says whether the map with that epoch is the present one. A server answers only
-- if it would take a write at this moment: a replica refuses the first command,
-- and so does, where min-replicas-to-write is set, a master whose replicas have
-- left it, which may have been replaced.
--
-- Touches  K, none
-- KEYS[1]  K
-- ARGV[1]  epoch: of the map that the caller has, 0 for none
-- Reply    {epoch} if it is the present one; {epoch, map} otherwise; {0} if there
--          is no map
-- Cost     O(1)
-- Repeat   harmless: nothing is written
redis.call('DEL', K .. ':none')
local stored = redis.call('HMGET', K, 'epoch', 'map')
if not stored[1] then
  return {0}
end
if stored[1] == ARGV[1] then
  return {tonumber(stored[1])}
end
return {tonumber(stored[1]), stored[2]}
