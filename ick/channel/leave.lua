-- ick.leave(K) member -> Icks and consumers
--
-- Removes a consumer, and dead ones, with their entries for Icks.
--
-- Needs    roll
-- KEYS[1]  K
-- ARGV[1]  member: the consumer, or '' for none
-- Reply    how many entries for Icks and consumers were removed
-- Cost     O(Icks + consumers), at most 1,024 Icks
-- Repeat   harmless: the second run finds nothing
local removed = ARGV[1] ~= '' and redis.call('ZREM', members, ARGV[1]) or 0
removed = removed + redis.call('ZREMRANGEBYSCORE', members, '-inf', now)
for index, who in pairs(owner) do
  if who ~= '' and who == ARGV[1] then
    gone[#gone + 1] = index
  end
end
if #gone > 0 then
  removed = removed + redis.call('HDEL', owners, unpack(gone))
end
return removed
