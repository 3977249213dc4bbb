-- expiry.hash_all(K) shards name most -> {field, value, ...}
--
-- Brings all fields of a hash as they are at one moment, if their values are not more
-- than a mebibyte: behind that it brings names only. It writes nothing.
--
-- Needs    shard
-- Touches  K, h:ARGV[2], t:ARGV[2]
-- Without  h:ARGV[2]
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name: of the hash
-- ARGV[3]  most: how many fields it may have
-- Reply    the fields and their values, nil for one that was not brought; the error
--          TOOMANY if there are more
-- Cost     O(fields)
-- Repeat   harmless: it only reads
local h = prefix .. 'h:' .. ARGV[2]
local fields = redis.call('ZRANGEBYSCORE', prefix .. 't:' .. ARGV[2], '(' .. now, '+inf', 'LIMIT', 0, ARGV[3] + 1)
if #fields > tonumber(ARGV[3]) then
  return redis.error_reply('TOOMANY the hash has more than ' .. ARGV[3] .. ' fields')
end
local reply, room = {}, 1048576
for i, field in ipairs(fields) do
  local value = room > 0 and redis.call('HGET', h, field)
  reply[2 * i - 1], reply[2 * i] = field, value
  room = room - (value and #value or 0)
end
return reply
