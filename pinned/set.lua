-- pinned.set(K) shards name ttl condition payload [claim] -> 1 or 0
--
-- Stores a value until its deadline, ends the claim of its key, and removes two expired values
-- of the shard. The index comes first: if a full server refuses that write, nothing was changed.
--
-- Needs    lane, values
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name
-- ARGV[3]  ttl: in milliseconds from now, at least 1
-- ARGV[4]  condition: 'none' to store only a new value, 'exist' only over an old one, 'claim'
--          only under the claim, or ''
-- ARGV[5]  payload
-- ARGV[6]  claim: of pinned.claim_key, for that condition
-- Reply    1 if it was stored, else 0
-- Cost     O(log N) of the shard's N values, and O(length of the payload)
-- Repeat   harmless: the lane keeps the reply
if answered then
  return 1
end
local name, condition, claim = ARGV[2], ARGV[4], '\0' .. ARGV[2]
local deadline = string.find(ARGV[3], '^[1-9]%d*$') and soon + ARGV[3] or math.huge
if name == '' or string.byte(name) == 0 or deadline >= 281474976710655 or #ARGV ~= (condition == 'claim' and 6 or 5)
  or condition ~= '' and condition ~= 'none' and condition ~= 'exist' and condition ~= 'claim' then
  return redis.error_reply('ERR invalid arguments of a write')
end
if condition == 'claim' then
  local held = redis.call('HGET', values, claim)
  if not held or string.sub(held, 9) ~= ARGV[6] then
    return 0
  end
elseif condition ~= '' then
  local old = deadline_of(redis.call('HGET', values, name))
  if not old then
    return redis.error_reply('BROKEN ' .. name .. ' is no value')
  elseif condition == 'none' and old > now or condition == 'exist' and old <= now then
    return 0
  end
end
redis.call('ZADD', due, string.format('%.0f', deadline), name)
redis.call('HSET', values, name, head_of(deadline) .. ARGV[5])
if redis.call('HDEL', values, claim) == 1 then
  redis.call('ZREM', due, claim)
end
count('set', 1)
answer('1')
reap(2)
return 1
