-- expiry.reap(K) shards budget [name ...] -> {reaped, full}
--
-- Removes expired fields of the hashes that are named, until the budget is used up; a
-- hash that has nothing to remove costs one, too. What is expired is looked up and
-- removed in one go, so a field that was written again is never hit. Lanes that rest are
-- forgotten on the way.
--
-- It begins with a write that a full server does not refuse. A hash of a wrong
-- type leaves the index and does not keep the others.
--
-- Needs    hashes, tidy
-- Touches  K, h:ARGV[3...], t:ARGV[3...]
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  budget: how many fields and hashes at most, up to 1,000
-- ARGV     names of hashes
-- Reply    how many fields were removed, and 1 if the budget is used up, else 0
-- Cost     O(budget * log N)
-- Repeat   harmless: what is gone is not found again
local left, reaped = tonumber(ARGV[2]), 0
redis.call('ZCARD', due) -- what is something else ends the script here
redis.call('HDEL', K, '') -- a first write that a full server does not refuse
tidy_lanes()
for i = 3, #ARGV do
  local name = ARGV[i]
  local values, deadlines = redis.pcall('HLEN', prefix .. 'h:' .. name), redis.pcall('ZCARD', prefix .. 't:' .. name)
  if type(values) == 'number' and type(deadlines) == 'number' then
    local expired, looked = settle(name, {}, 0, left, redis.call('ZSCORE', due, name))
    reaped, left = reaped + expired, left - math.max(1, looked)
  else
    redis.call('ZREM', due, name)
    left = left - 1
  end
  if left <= 0 then
    break
  end
end
return {reaped, left <= 0 and 1 or 0}
