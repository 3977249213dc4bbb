-- queue.extend(K) consumer visibility receipt [receipt ...] -> {1 or 0, ...}
--
-- Keeps messages invisible for longer, counted from now. It may be shorter than
-- what was left.
--
-- KEYS[1]  K
-- ARGV[1]  consumer: the reader's name in the group
-- ARGV[2]  visibility: in milliseconds
-- ARGV     receipts, 'stream:entry' or 'stream:entry:message', at most 1,000
-- Reply    for each receipt 1, or 0 if it is stale
-- Cost     O(log N) a receipt
-- Repeat   harmless: the time is counted from the last run
local reply = {}
for j = 3, #ARGV do
  local i, entry = string.match(ARGV[j], '^(%d+):([%d%-]+)')
  local key = stream_key(i)
  reply[#reply + 1] = 0
  if streams > 0 and redis.call('EXISTS', key) == 1 and #redis.call('XPENDING', key, group, entry, entry, 1) == 1 then
    local at = now + tonumber(ARGV[2])
    redis.call('XCLAIM', key, group, ARGV[1], 0, entry, 'TIME', string.format('%.0f', at - 86400000), 'JUSTID')
    redis.call('ZADD', due, 'LT', string.format('%.0f', at), i)
    reply[#reply] = 1
  end
end
return reply
