-- fairqueue.cancel(K) id message [message ...] -> {where, ...}
--
-- Removes messages that are not done yet, wherever they are: set aside, waiting
-- or in flight. The reader of one in flight learns of it when it extends its
-- time.
--
-- KEYS[1]  K
-- ARGV[1]  id: of the request
-- ARGV     ids of messages, at most 1,000
-- ARGV     last, the number of the try
-- Reply    for each message 'd' if it was set aside, 'w' if it waited, 'f' if it
--          was in flight, '-' if there is no such message any more
-- Cost     O(log N) a message
-- Repeat   harmless: the answer is replayed by id
local reply, id = {}, ARGV[1]
if ARGV[#ARGV] ~= '1' then
  local before = streams > 0 and reqid_recall(id)
  if before then
    for one in string.gmatch(before, '.') do
      reply[#reply + 1] = one
    end
    return reply
  end
end

sound()

local function cancel(message)
  local where, entry = string.match(redis.call('HGET', places, message) or '', '^(%S+) (%S+)$')
  if not where then
    entry, where = string.match(message, '^(%d+%-%d+)%.(%w+)$')
  end
  if where == 'd' then
    if redis.call('ZREM', delayed, entry) == 1 then
      redis.call('XDEL', later, entry)
      return 'd'
    end
  elseif tonumber(where) then
    local i = tonumber(where)
    if finish(i, entry) then
      count('recalled', 1)
      return 'f'
    elseif redis.call('XDEL', stream_key(i), entry) == 1 then
      go(i, 1)
      return 'w'
    end
  end
  return '-'
end

local cancelled = 0
for j = 2, #ARGV - 1 do
  local message = ARGV[j]
  reply[j - 1] = streams > 0 and cancel(message) or '-'
  if reply[j - 1] ~= '-' then
    forget(message)
    cancelled = cancelled + 1
  end
end
book()
if cancelled > 0 then
  count('cancelled', cancelled)
  reqid_remember(id, table.concat(reply))
end
return reply
