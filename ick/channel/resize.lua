-- ick.resize(K) size -> {size, span, epoch}
--
-- Changes how many Icks producers use. Icks that are no longer used are served
-- until they are empty and retired. Those that were retired before have to be
-- retired again under the new epoch, so that nobody who still has an earlier one
-- in hand can open them behind the consumers' backs.
--
-- Needs    roll
-- KEYS[1]  K
-- ARGV[1]  size: from 1 to 1,024
-- Reply    {size, span, epoch} from now on
-- Cost     O(Icks + consumers), at most 1,024 Icks
-- Repeat   harmless: a channel of that size already is not changed
local wanted = tonumber(ARGV[1])
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
