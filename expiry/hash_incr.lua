-- expiry.hash_incr(K) name id field by -> value
--
-- Adds to a field that holds a whole number, and keeps its deadline. One that is
-- not there starts at 0, without a deadline, and an expired one is not there.
--
-- The first write is one that a full server refuses.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- ARGV[2]  id: of the request
-- ARGV[3]  field
-- ARGV[4]  by: a whole number of 64 bits
-- ARGV     last, the number of the try
-- Reply    the field's new value, as text: Lua's numbers have 53 bits; the error
--          EXPIRYNUMBER if it holds no number, or would hold too large a one
-- Cost     O(log N)
-- Repeat   harmless: the answer is replayed by id
local id, field, by = ARGV[2], ARGV[3], ARGV[4]
local before = ARGV[#ARGV] ~= '1' and reqid_recall(id)
if before then
  return before
end

local stale = expired(redis.call('ZSCORE', t, field))
if stale then
  redis.call('HSET', h, field, by)
  redis.call('ZREM', t, field)
else
  local sum = redis.pcall('HINCRBY', h, field, by)
  if type(sum) == 'table' then
    if string.find(sum.err, 'integer', 1, true) or string.find(sum.err, 'overflow', 1, true) then
      return redis.error_reply('EXPIRYNUMBER ' .. sum.err)
    end
    return sum
  end
end
local value = redis.call('HGET', h, field)
tidy(stale)
count('set', 1)
reqid_remember(id, value)
return value
