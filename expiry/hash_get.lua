-- expiry.hash_get(K) name field -> {value, ttl} or nil
--
-- Brings a field. It writes nothing. It is the call that must be fast, so it does
-- without the fragment of the others, and asks for the time only if it matters.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- ARGV[2]  field
-- Reply    the value and the milliseconds that are left, -1 without a deadline;
--          nil if there is no such field
-- Cost     O(1)
-- Repeat   harmless: it only reads
local score, left = redis.call('ZSCORE', KEYS[1] .. ':t:' .. ARGV[1], ARGV[2]), -1
if score then
  local clock = redis.call('TIME')
  left = score - clock[1] * 1000
  if left <= math.floor(clock[2] / 1000) then
    return false
  end
  left = math.max(1, left - math.ceil(clock[2] / 1000)) -- the millisecond that has begun does not count
end
local value = redis.call('HGET', KEYS[1] .. ':h:' .. ARGV[1], ARGV[2])
return value and {value, left}
