-- ick.channel(K) size span epoch -> {size, span, epoch, peak, consumers, owners}
--
-- Reads a channel, and creates one that does not exist.
--
-- Needs    roll
-- KEYS[1]  K
-- ARGV[1]  size as the caller knows it, or of a new channel; 0 creates none
-- ARGV[2]  span as the caller knows it
-- ARGV[3]  epoch as the caller knows it, 0 for none
-- Reply    {size, span, epoch, peak, {consumer, milliseconds until it loses its Icks, ...},
--          {index of an Ick, its consumer, ...}}; a retired Ick has the consumer ''. All 0
--          and empty without a channel
-- Cost     O(Icks + consumers), at most 1,024 Icks
-- Repeat   harmless: it states the current state
if invalid(1) then
  return redis.error_reply('ERR not a layout of a channel')
end
adopt(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]))
local consumers, served = {}, {}
for member in pairs(live) do
  consumers[#consumers + 1] = member
  consumers[#consumers + 1] = tonumber(redis.call('ZSCORE', members, member)) - now
end
for index, who in pairs(owner) do
  served[#served + 1] = index
  served[#served + 1] = who
end
return {size, span, string.format('%.0f', epoch), peak, consumers, served}
