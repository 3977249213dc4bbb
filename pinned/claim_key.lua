-- pinned.claim_key(K) shards name ttl claim -> {micros, claim, value}
--
-- Claims a key for a later pinned.set and reads its value. The claim is stored as a value is,
-- under the key's name behind a byte 0, which no name has. A later claim replaces it. Removes
-- two expired values of the shard. The index comes first, as in pinned.set.
--
-- Needs    lane, values
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name
-- ARGV[3]  ttl: of the claim, in milliseconds from now, at least 1
-- ARGV[4]  claim: a text that no other claim has
-- Reply    the server's clock in microseconds; the claim; the stored value of the key, nil for
--          none
-- Cost     O(log N) of the shard's N values, and O(length of the value)
-- Repeat   harmless: the lane keeps the claim, so that a call that comes late does not restore
--          one that has ended
local name = ARGV[2]
local deadline = string.find(ARGV[3], '^[1-9]%d*$') and soon + ARGV[3] or math.huge
if name == '' or string.byte(name) == 0 or deadline >= 281474976710655 or #ARGV ~= 4 then
  return redis.error_reply('ERR invalid arguments of a claim')
end
if not answered then
  redis.call('ZADD', due, string.format('%.0f', deadline), '\0' .. name)
  redis.call('HSET', values, '\0' .. name, head_of(deadline) .. ARGV[4])
  answer(ARGV[4])
  reap(2)
end
return {string.format('%.0f', micros), answered or ARGV[4], redis.call('HGET', values, name)}
