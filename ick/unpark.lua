-- ick.unpark(K) how member [member ...] -> number of members
--
-- Ends the rest of parked members: they are tried once more, attempts kept, or
-- dropped for good.
--
-- Needs    open, tidy
-- KEYS[1]  K
-- ARGV[1]  how: 'retry' or 'drop' those that are named, by hand; 'due' to retry
--          up to 100 whose rest is over, and to forget the answers of lanes that
--          rest
-- ARGV     members, at most 1,000
-- Reply    how many of them were parked
-- Cost     O(log N) a member
-- Repeat   harmless: a member that is not parked is passed over
if not exists then
  return 0
end
local how, chosen = ARGV[1], {unpack(ARGV, 2)}
if how == 'due' then
  local clock = redis.call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  chosen = redis.call('ZRANGEBYSCORE', parked, '-inf', now, 'LIMIT', 0, 100)
  tidy_lanes()
end
local count, returned = 0, 0
for _, member in ipairs(chosen) do
  if redis.call('ZREM', parked, member) == 1 then
    count = count + 1
    if how ~= 'drop' then
      local score = string.match(redis.call('HGET', fails, member) or '0 0', '^%d+ (%S+)')
      returned = returned + redis.call('ZADD', pset, 'LT', score, member)
    else
      redis.call('HDEL', fails, member)
    end
  end
end
if count > 0 then
  redis.pcall('HINCRBY', meta, how ~= 'drop' and 'retried' or 'dropped', count)
  redis.pcall('HINCRBY', meta, 'left', -returned)
  if how ~= 'drop' and redis.call('EXISTS', wake) == 0 then
    redis.pcall('LPUSH', wake, '1')
  end
end
return count
