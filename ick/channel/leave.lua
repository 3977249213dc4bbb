-- ick.leave(K) member -> Icks and consumers
--
-- A consumer goes, and so does what is left of those that went without a word.
--
-- Needs    roll
-- KEYS[1]  K
-- ARGV[1]  member: who leaves; '' for nobody, to tidy up only
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
