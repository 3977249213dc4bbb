-- expiry.reap(K) shards budget [name ...] -> {reaped, full}
--
-- Removes expired fields of hashes until the budget is used up; a hash without any costs
-- one. It finds and removes them in one step, so a field that was written again stays. It
-- also forgets old lanes. A hash of a wrong type leaves the index. The first write is one
-- that a full server accepts.
--
-- Needs    hashes, tidy
-- Touches  K, h:ARGV[3...], t:ARGV[3...]
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  budget: how many fields and hashes, up to 1,000
-- ARGV     names of hashes
-- Reply    how many fields were removed; 1 if the budget is used up, else 0
-- Cost     O(budget * log N)
-- Repeat   harmless: removed fields are not found again
local left, reaped = string.find(ARGV[2], '^%d+$') and tonumber(ARGV[2]) or math.huge, 0
if left > 1000 then
  return redis.error_reply('ERR not a budget: ' .. ARGV[2])
end
redis.call('ZCARD', due) -- fails for another type
redis.call('HDEL', K, '') -- a full server accepts this first write
tidy_lanes()
for i = 3, #ARGV do
  local name = ARGV[i]
  local values, deadlines = redis.pcall('HLEN', prefix .. 'h:' .. name), redis.pcall('ZCARD', prefix .. 't:' .. name)
  if type(values) == 'number' and type(deadlines) == 'number' then
    local at = at_of(prefix .. 'h:' .. name)
    local expired, looked = settle(name, {}, 0, left, at == time_of(redis.call('ZSCORE', due, name)) and at or 0)
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
