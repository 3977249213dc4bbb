-- ick.stats(K) first -> {version, sizes, bounds, counters} or nil
--
-- Reads the figures of an Ick. It counts the members in both sets for a page of the consumer
-- set at a time.
--
-- Needs    open
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  first: the rank in the consumer set at which counting begins
-- Reply    nil without an Ick, else {version, the server's clock in microseconds, sizes of
--          the producer set, the consumer set and the parked members, how many of the next
--          10,000 reserved members also wait, lowest and highest waiting score, lowest and
--          highest reserved score ('' in an empty set), {counter, value, ...}}
-- Cost     O(10,000) at most
-- Repeat   harmless: it only reads
if not exists then
  return false
end
local first, both = tonumber(ARGV[1]), 0
for slice = first, math.min(first + 10000, reserved) - 1, 1000 do
  local members = redis.call('ZRANGE', cset, slice, slice + 999)
  for _, score in ipairs(redis.call('ZMSCORE', pset, unpack(members))) do
    if score then
      both = both + 1
    end
  end
end
local function bounds(key)
  local low = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  local high = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  return low[2] or '', high[2] or ''
end
local clock = redis.call('TIME')
local plow, phigh = bounds(pset)
local clow, chigh = bounds(cset)
return {
  version, string.format('%.0f', clock[1] * 1e6 + clock[2]), waiting, reserved, resting, both,
  plow, phigh, clow, chigh, redis.call('HGETALL', meta),
}
