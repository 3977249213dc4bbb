-- shrink.dismiss(K) identity -> outcome
--
-- Removes the fleet's own keys from a server that left the fleet.
--
-- Touches  id, floor, tags, map, none
-- KEYS[1]  K
-- ARGV[1]  identity: that the server is expected to have
-- Reply    1 if it has none any more; 0 if it has another one, and was not changed
-- Cost     O(1)
-- Repeat   harmless: a server without an identity is clear
local present = redis.call('GET', K .. ':id')
if present and present ~= ARGV[1] then
  return 0
end
redis.call('DEL', K .. ':id', K .. ':floor', K .. ':tags', K .. ':map', K .. ':none')
return 1
