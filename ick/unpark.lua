-- ick.unpark(K) how member [member ...] -> number of members
--
-- Moves parked members back to the producer set with their attempts, or drops them.
--
-- Needs    open, lane, tidy
-- KEYS[1]  K
-- ARGV[1]  how: 'retry' or 'drop' for the named members; 'due' to retry up to 100 whose
--          delay is over, and to remove the results of old lanes
-- ARGV     members, at most 1,000
-- Reply    how many of them were parked
-- Cost     O(log N) a member
-- Repeat   harmless: the lane keeps the reply, and a repeat drops nothing that was parked since
if ARGV[1] ~= 'retry' and ARGV[1] ~= 'drop' and ARGV[1] ~= 'due' or #ARGV > 1001 then
  return redis.error_reply('ERR invalid arguments')
elseif answered then
  return tonumber(answered)
elseif not exists then
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
  answer(tostring(count))
end
return count
