-- ick.reopen(K) epoch -> 1 or 0
--
-- Opens a retired Ick that its channel uses again.
--
-- Touches  K, none
-- KEYS[1]  K
-- ARGV[1]  epoch: the caller's epoch of the channel
-- Reply    1 if the Ick is open; 0 if it was retired under this epoch or a later one: the
--          caller's epoch is old
-- Cost     O(1)
-- Repeat   harmless: it is open already
local before = string.match(redis.call('GET', K) or '', '^ick%.retired:(%d+)$')
if not before then
  return 1
elseif tonumber(before) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('SET', K, 'ick.v1')
return 1
