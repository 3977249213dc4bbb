-- expiry.key_get(K) name ... -> {ttl, payload, ...}
--
-- Reads values. It writes nothing: what is overdue is not there.
--
-- KEYS[1]  K
-- ARGV     names, at most 100
-- Reply    for each name, how long it still lives in milliseconds, and its payload;
--          0 and '' when it is not there
-- Cost     O(length of the payloads)
-- Repeat   harmless: it writes nothing
local reply = {}
for i, name in ipairs(ARGV) do
  local value = redis.call('GET', value_key(name))
  local left = 0
  if value then
    local _, head = string.find(value, '^%d+ ')
    if head ~= 17 then
      return redis.error_reply('EXPIRYBROKEN ' .. value_key(name) .. ' is no value')
    end
    left = left_of(tonumber(string.sub(value, 1, 16)))
  end
  reply[2 * i - 1] = left
  reply[2 * i] = left > 0 and string.sub(value, 18) or ''
end
return reply
