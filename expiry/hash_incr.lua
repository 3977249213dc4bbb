-- expiry.hash_incr(K) shards name field by -> value
--
-- Adds to a field that holds a whole number, and keeps its deadline. One that is
-- not there starts at 0, without a deadline, and an expired one is not there.
--
-- The first write is one that a full server refuses.
--
-- Needs    lane, hash_one
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name: of the hash
-- ARGV[3]  field
-- ARGV[4]  by: a whole number of 64 bits
-- Reply    the field's new value, as text: Lua's numbers have 53 bits; the error
--          NUMBER if it holds no number, or would hold too large a one
-- Cost     O(log N)
-- Repeat   harmless: the answer is known by its lane
if answered then
  return answered
end
local field, by = ARGV[3], ARGV[4]
if time_of(redis.call('ZSCORE', t, field)) > now then
  local sum = redis.pcall('HINCRBY', h, field, by)
  if type(sum) == 'table' then
    if string.find(sum.err, 'integer', 1, true) or string.find(sum.err, 'overflow', 1, true) then
      return redis.error_reply('NUMBER ' .. sum.err)
    end
    return sum
  end
else
  redis.call('HSET', h, field, by)
  redis.call('ZADD', t, '+inf', field)
end
local value = redis.call('HGET', h, field)
settle(name, {}, 0, 10)
count('set', 1)
return answer(value)
