-- fairqueue.ack(K) id receipt [receipt ...] -> {1 or 0, ...}
--
-- Removes messages that were handled, memory and all. A receipt whose message
-- became visible again and was taken up, or that was acknowledged already, is
-- stale and changes nothing.
--
-- KEYS[1]  K
-- ARGV[1]  id: of the request
-- ARGV     receipts, 'stream:entry' or 'stream:entry:message', at most 1,000
-- ARGV     last, the number of the try
-- Reply    for each receipt 1 if its message is gone by it, 0 if it is stale
-- Cost     O(1) a receipt
-- Repeat   harmless: the answer is replayed by id
if streams == 0 then
  local none = {}
  for j = 2, #ARGV - 1 do
    none[j - 1] = 0
  end
  return none
end
local id = ARGV[1]
if ARGV[#ARGV] ~= '1' then
  local before = reqid_recall(id)
  if before then
    local reply = {}
    for one in string.gmatch(before, '%d') do
      reply[#reply + 1] = tonumber(one)
    end
    return reply
  end
end
redis.call('HLEN', places)
local reply, acked, gone = {}, 0, {}
for j = 2, #ARGV - 1 do
  local i, entry, message = string.match(ARGV[j], '^(%d+):([%d%-]+):?(.*)$')
  reply[#reply + 1] = group and redis.call('XACK', stream_key(i), group, entry) or 0
  if reply[#reply] == 1 then
    acked = acked + 1
    gone[i] = gone[i] or {}
    gone[i][#gone[i] + 1] = entry
    if message ~= '' then
      forget(message)
    end
  end
end
for i, entries in pairs(gone) do
  redis.call('XDEL', stream_key(i), unpack(entries))
end
if acked > 0 then
  count('acked', acked)
  reqid_remember(id, table.concat(reply), now_us)
end
return reply
