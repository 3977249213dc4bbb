-- pinned.set(K) shards name ttl condition payload -> 1 or 0
--
-- Stores a value until its deadline. The index comes first, and its write is one
-- that a full server refuses: then nothing was changed, and if it is not refused,
-- nothing after it is. Two overdue values of the shard go on the way.
--
-- Needs    lane, values
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name
-- ARGV[3]  ttl: in milliseconds from now, at least 1
-- ARGV[4]  condition: 'none' to store only what is not there, 'exist' only what
--          is, '' for either
-- ARGV[5]  payload
-- Reply    1 when it was stored, else 0
-- Cost     O(log N) of the shard's N values, and O(length of the payload)
-- Repeat   harmless: the answer is known by its lane, so a value that was stored is not
--          stored over a later one, and not refused for want of memory
if answered then
  return 1
end
local name, condition = ARGV[2], ARGV[4]
if condition ~= '' then
  local old = deadline_of(redis.call('HGET', values, name))
  if not old then
    return redis.error_reply('BROKEN ' .. name .. ' is no value')
  elseif condition == 'none' and old > now or condition == 'exist' and old <= now then
    return 0
  end
end
local deadline = soon + ARGV[3]
redis.call('ZADD', due, string.format('%.0f', deadline), name)
redis.call('HSET', values, name, head_of(deadline) .. ARGV[5])
count('set', 1)
answer('1')
reap(2)
return 1
