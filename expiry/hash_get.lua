-- expiry.hash_get(K) shards name field [field ...] -> {value, ttl, ...}
--
-- Brings fields as they are at one moment. It writes nothing. It is the call that must
-- be fast, so it asks for the time, and looks at the shard, only if it matters. Behind
-- a mebibyte of values it stops.
--
-- Needs    check
-- Touches  K, h:ARGV[2], t:ARGV[2]
-- Without  h:ARGV[2]
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name: of the hash
-- ARGV     fields, at most 1,000
-- Reply    for each field the value and the milliseconds that are left, -1 without
--          a deadline; nil and -2 if there is no such field; for the first fields only
--          if their values are large, and for one at least
-- Cost     O(log N) a field, and O(length of the values)
-- Repeat   harmless: it only reads
local h, t = prefix .. 'h:' .. ARGV[2], prefix .. 't:' .. ARGV[2]
local reply, room, micros, missing = {}, 1048576, nil, false
for i = 3, #ARGV do
  local score, value, left = redis.call('ZSCORE', t, ARGV[i]), false, -2
  if score == 'inf' then
    value, left = redis.call('HGET', h, ARGV[i]), -1
  elseif score then
    if not micros then
      local clock = redis.call('TIME')
      micros = clock[1] * 1000000 + clock[2]
    end
    left = score - math.ceil(micros / 1000)
    value = score * 1000 > micros and redis.call('HGET', h, ARGV[i])
  end
  reply[#reply + 1] = value
  reply[#reply + 1] = value and (left < 0 and left or math.max(1, left)) or -2
  room = room - (value and #value or 0)
  missing = missing or not value
  if room <= 0 then
    break
  end
end
return missing and refusal() or reply
