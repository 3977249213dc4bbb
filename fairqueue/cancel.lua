-- fairqueue.cancel(K) message [message ...] -> {where, ...}
--
-- Removes messages that are not done yet, wherever they are: set aside, waiting
-- or in flight. The reader of one in flight learns of it when it extends its
-- time.
--
-- Needs    move, lane
-- KEYS[1]  K
-- ARGV     ids of messages, at most 1,000
-- Reply    for each message 'd' if it was set aside, 'w' if it waited, 'f' if it
--          was in flight, '-' if there is no such message any more
-- Cost     O(log N) a message
-- Repeat   harmless: the lane knows the answer
local reply = {}
if streams > 0 and answered then
  for one in string.gmatch(answered, '.') do
    reply[#reply + 1] = one
  end
  return reply
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
for j = 1, #ARGV do
  local message = ARGV[j]
  reply[j] = streams > 0 and cancel(message) or '-'
  if reply[j] ~= '-' then
    forget(message)
    cancelled = cancelled + 1
  end
end
book()
if cancelled > 0 then
  count('cancelled', cancelled)
  answer(table.concat(reply))
end
return reply
