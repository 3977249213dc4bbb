-- fairqueue.purge(K) message [message ...] -> number of messages
--
-- Forgets dead messages for good.
--
-- Needs    open
-- KEYS[1]  K
-- ARGV     ids of messages, at most 1,000
-- Reply    how many of them were dead
-- Cost     O(log N) a message
-- Repeat   harmless: the second run finds nothing and counts 0
local dead, places = K .. ':dead', K .. ':places'
redis.call('XLEN', dead)
local purged = 0
for _, message in ipairs(ARGV) do
  local entry = string.match(redis.call('HGET', places, message) or '', '^x (%S+)$')
  if entry then
    purged = purged + redis.call('XDEL', dead, entry)
    redis.call('HDEL', places, message)
  end
end
if purged > 0 and streams > 0 then
  redis.pcall('HINCRBY', K, 'purged', purged)
end
return purged
