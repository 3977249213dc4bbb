-- fairqueue.redrive(K) message [message ...] -> {1 or 0, ...}
--
-- Has dead messages tried again, as if they had never been delivered.
--
-- Needs    move, lane
-- KEYS[1]  K
-- ARGV     ids of messages, at most 1,000
-- Reply    for each message 1, or 0 if it is not dead
-- Cost     O(log N) a message
-- Repeat   harmless: the lane knows the answer
local reply = {}
if streams > 0 and answered then
  for one in string.gmatch(answered, '%d') do
    reply[#reply + 1] = tonumber(one)
  end
  return reply
end

sound()

local function redrive(message)
  local entry = string.match(redis.call('HGET', places, message) or '', '^x (%S+)$')
  local lost = entry and redis.call('XRANGE', dead, entry, entry)[1]
  if not lost then
    return 0
  end
  local fields = {}
  for j = 1, #lost[2], 2 do
    if lost[2][j] ~= 'r' and lost[2][j] ~= 'd' then -- neither the reason nor a deadline that has come
      fields[#fields + 1] = lost[2][j]
      fields[#fields + 1] = lost[2][j + 1]
    end
  end
  local i = tonumber(field_of(lost[2], 's') or 0) % streams
  redis.call('XLEN', stream_key(i))
  redis.call('XDEL', dead, entry)
  redis.call('HSET', places, message, i .. ' ' .. put(i, again(message, 0, fields)))
  return 1
end

local back = 0
for j = 1, #ARGV do
  reply[j] = streams > 0 and redrive(ARGV[j]) or 0
  back = back + reply[j]
end
book()
count('moved', back)
count('redriven', back)
if back > 0 then
  answer(table.concat(reply))
  ring(back)
end
return reply
