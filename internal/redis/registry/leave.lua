-- registry.leave(K) field value -> 1 or 0
--
-- Removes the entry of a structure that is gone, unless it was entered again since it
-- was read.
--
-- Needs    nothing
-- Touches  K
-- KEYS[1]  K: a shard of the registry
-- ARGV[1]  field: the kind and the name of the structure
-- ARGV[2]  value: of the entry, as it was read
-- Reply    1 if it was removed
-- Cost     O(1)
-- Repeat   harmless: the second run finds nothing
if redis.call('HGET', K, ARGV[1]) ~= ARGV[2] then
  return 0
end
return redis.call('HDEL', K, ARGV[1])
