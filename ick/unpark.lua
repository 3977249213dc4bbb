-- ick.unpark(K) how member [member ...] -> number of members
--
-- Ends the rest of parked members by hand: they are tried once more, attempts
-- kept, or dropped for good.
--
-- KEYS[1]  K
-- ARGV[1]  how: 'retry' or 'drop'
-- ARGV     members, at most 1,000
-- Reply    how many of them were parked
-- Cost     O(log N) a member
-- Repeat   harmless: a member that is not parked is passed over
if not exists then
  return 0
end
local count, returned = 0, 0
for i = 2, #ARGV do
  local member = ARGV[i]
  if redis.call('ZREM', parked, member) == 1 then
    count = count + 1
    if ARGV[1] == 'retry' then
      local score = string.match(redis.call('HGET', fails, member) or '0 0', '^%d+ (%S+)')
      returned = returned + redis.call('ZADD', pset, 'LT', score, member)
    else
      redis.call('HDEL', fails, member)
    end
  end
end
if count > 0 then
  redis.pcall('HINCRBY', meta, ARGV[1] == 'retry' and 'retried' or 'dropped', count)
  redis.pcall('HINCRBY', meta, 'left', -returned)
  if ARGV[1] == 'retry' and redis.call('EXISTS', wake) == 0 then
    redis.pcall('LPUSH', wake, '1')
  end
end
return count
