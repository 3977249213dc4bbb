-- ick.reopen(K) epoch -> 1 or 0
--
-- Opens an Ick that was retired, because its channel uses it again.
--
-- Touches  K, none
-- KEYS[1]  K
-- ARGV[1]  epoch: of the channel, as the caller knows it
-- Reply    1 when the Ick is open; 0 when it was retired under this epoch or a
--          later one, and the caller's knowledge is old
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
