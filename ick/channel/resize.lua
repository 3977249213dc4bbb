-- ick.resize(K) size -> {size, span, epoch}
--
-- Changes how many Icks producers use. Icks that are no longer used are served until they are
-- empty and retired. Icks that were retired before must be retired again under the new epoch,
-- so that no producer with an earlier one can open them.
--
-- Needs    roll
-- KEYS[1]  K
-- ARGV[1]  size: from 1 to 1,024
-- Reply    the new {size, span, epoch}
-- Cost     O(Icks + consumers), at most 1,024 Icks
-- Repeat   harmless: a channel that has the size is not changed
local wanted = string.find(ARGV[1], '^%d+$') and tonumber(ARGV[1]) or 0
if wanted < 1 or wanted > 1024 then
  return redis.error_reply('ERR a channel has 1 to 1,024 Icks')
end
if wanted ~= size then
  size, span = wanted, math.max(span, wanted)
  peak, epoch = math.max(peak, span), math.max(epoch + 1, now_us)
  keep()
  for index, who in pairs(owner) do
    if who == '' then
      redis.call('HDEL', owners, index)
    end
  end
end
return {size, span, string.format('%.0f', epoch)}
