-- ick.park(K) token attempts base most reason member [member ...] -> {parked, kept}
--
-- Moves failed members out of the consumer set, so that they do not block others. Each
-- failure doubles the delay of the next try. After the last attempt only a new mark or a
-- manual retry brings the member back. A commit removes the count of attempts.
--
-- Needs    open, token
-- KEYS[1]  K
-- ARGV[1]  token: of the reservation of the members
-- ARGV[2]  attempts: after this many failures there is no next try
-- ARGV[3]  base: the first delay in milliseconds
-- ARGV[4]  most: the longest delay in milliseconds
-- ARGV[5]  reason: why they failed, for people, at most 512 bytes
-- ARGV     members, at most 1,000
-- Reply    {members parked, members kept because they were folded again since}
-- Cost     O(log N) a member
-- Repeat   harmless: a parked member is not in the consumer set
if not string.find(table.concat(ARGV, ' ', 2, 4), '^%d+ %d+ %d+$') or #ARGV[5] > 512 or #ARGV > 1005 then
  return redis.error_reply('ERR invalid arguments of a failure')
end
local attempts, reason = tonumber(ARGV[2]), ARGV[5]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

redis.call('HDEL', meta, '') -- a full server accepts this first write
local count, kept = 0, 0
for i = 6, #ARGV do
  local member = ARGV[i]
  local score = redis.call('ZSCORE', cset, member)
  local number = redis.call('HGET', folds, member)
  if score and number and tonumber(number) <= covered then
    local tries = string.match(redis.call('HGET', fails, member) or '0', '^%d+') + 1
    local until_ = '+inf'
    if tries < attempts then
      until_ = now + math.min(ARGV[3] * 2 ^ (tries - 1), tonumber(ARGV[4]))
    end
    redis.call('ZREM', cset, member)
    redis.call('HDEL', folds, member)
    redis.call('ZADD', parked, until_, member)
    redis.call('HSET', fails, member, string.format('%d %s %.0f %s', tries, score, now, reason))
    count = count + 1
  elseif score then
    kept = kept + 1
  end
end
if count > 0 then
  redis.pcall('HINCRBY', meta, 'parked', count)
end
return {count, kept}
