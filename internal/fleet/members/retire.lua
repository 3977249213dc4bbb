-- fleet.retire(K) identity -> retired
--
-- Takes the identity of a former member away.
--
-- Touches  id
-- KEYS[1]  K
-- ARGV[1]  identity: the one to take away
-- Reply    whether the server had that identity
-- Cost     O(1)
-- Repeat   harmless: nothing is left to be taken
if redis.call('GET', K .. ':id') ~= ARGV[1] then
  return 0
end
return redis.call('DEL', K .. ':id')
