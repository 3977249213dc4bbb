-- shards.claim(K) want -> shards
--
-- Returns the number of shards of a namespace, and stores it if the namespace is new.
--
-- Needs    check
-- Touches  K
-- KEYS[1]  K: the namespace's record
-- ARGV[1]  want: the number for a new namespace; 0 creates none
-- Reply    the number, 0 for a namespace that does not exist
-- Cost     O(1)
-- Repeat   harmless: it changes nothing that exists
local found = redis.call('HMGET', K, 'version', 'shards')
if found[1] and found[1] ~= wire then
  return redis.error_reply('VERSION ' .. found[1])
elseif found[1] and not tonumber(found[2]) or not found[1] and redis.call('EXISTS', K) == 1 then
  return redis.error_reply('BROKEN the record is not whole')
elseif found[1] then
  return tonumber(found[2])
elseif not string.find(ARGV[1], '^%d%d?%d?$') or tonumber(ARGV[1]) > 256 then
  return redis.error_reply('ERR a namespace has 1 to 256 shards')
elseif ARGV[1] ~= '0' then
  redis.call('HSET', K, 'version', wire, 'shards', ARGV[1])
end
return tonumber(ARGV[1])
