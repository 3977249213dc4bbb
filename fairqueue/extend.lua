-- fairqueue.extend(K) visibility receipt [receipt ...] -> {1 or 0, ...}
--
-- Keeps messages invisible for longer, counted from now. It may be shorter than
-- what was left. Whoever extends, the message stays under its reader's name.
--
-- Needs    open
-- KEYS[1]  K
-- ARGV[1]  visibility: in milliseconds
-- ARGV     receipts, 'stream:entry' or 'stream:entry:message', at most 1,000
-- Reply    for each receipt 1, or 0 if it is stale
-- Cost     O(log N) a receipt
-- Repeat   harmless: the time is counted from the last run
local due = K .. ':due'
redis.call('ZCARD', due)
local reply = {}
for j = 2, #ARGV do
  local i, entry = string.match(ARGV[j], '^(%d+):([%d%-]+)')
  local key = stream_key(i)
  local pending = streams > 0 and redis.pcall('XPENDING', key, group, entry, entry, 1) or {}
  if pending.err and not string.find(pending.err, 'NOGROUP', 1, true) then
    return pending
  end
  reply[#reply + 1] = 0
  if #pending == 1 then
    local at, reader = now + tonumber(ARGV[1]), string.gsub(pending[1][2], '/%d+$', '')
    redis.call('XCLAIM', key, group, reader .. '/' .. ARGV[1], 0, entry, 'JUSTID')
    redis.call('ZADD', due, 'LT', string.format('%.0f', at), i)
    reply[#reply] = 1
  end
end
return reply
