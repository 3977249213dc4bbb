-- lease.settle(K) claimed {name again} ... -> number of entries
--
-- Puts claimed names back into the index, or removes them. It skips names that were entered
-- again since.
--
-- Needs    nothing
-- Touches  K
-- KEYS[1]  K: a shard of the index
-- ARGV[1]  claimed: of lease.due
-- ARGV     for each of at most 100 names: the name; in how many milliseconds to visit it again,
--          below 0 for never
-- Reply    how many entries were changed
-- Cost     O(log N) for each name
-- Repeat   harmless: the second run finds no claimed names
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local claimed, settled = tonumber(ARGV[1]), 0
for i = 3, #ARGV + 1, 2 do
  if not ARGV[i] or not string.find(ARGV[i], '^%-?%d+$') then
    return redis.error_reply('ERR not a number of milliseconds')
  end
end
redis.call('ZREM', K, '') -- a full server accepts this first write
for i = 2, #ARGV, 2 do
  local again = tonumber(ARGV[i + 1])
  if tonumber(redis.call('ZSCORE', K, ARGV[i]) or 0) == claimed then
    settled = settled + 1
    if again < 0 then
      redis.call('ZREM', K, ARGV[i])
    else
      redis.call('ZADD', K, string.format('%.0f', now + again), ARGV[i])
    end
  end
end
return settled
