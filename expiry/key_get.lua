-- expiry.key_get(K) shards name ... -> {now, value, ...}
--
-- Reads values as they are stored; what is overdue is not there. It writes nothing. It
-- is the call that must be fast, so it looks at the shard only if a value is not there.
-- Behind a mebibyte of values it stops.
--
-- Needs    check
-- Touches  K, values
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV     names, at most 100
-- Reply    the server's clock in microseconds, and for each name what is stored, nil for
--          nothing; for the first names only if their values are large, and for one at
--          least
-- Cost     O(length of the values)
-- Repeat   harmless: it writes nothing
local values, clock, room, missing = prefix .. 'values', redis.call('TIME'), 1048576, false
local reply = {clock[1] * 1000000 + clock[2]}
for i = 2, #ARGV do
  local value = redis.call('HGET', values, ARGV[i])
  reply[i], missing = value, missing or not value
  room = room - (value and #value or 0)
  if room <= 0 then
    break
  end
end
return missing and refusal() or reply
