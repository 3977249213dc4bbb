-- fairqueue.nack(K) how delay attempts reason receipt [receipt ...] -> {1 or 0, ...}
--
-- Hands messages back: because they failed, or because nobody is there any more
-- to whom they could be handed. A failed one comes again after the delay, or is
-- dead when it was delivered often enough.
--
-- Needs    move, lane
-- KEYS[1]  K
-- ARGV[1]  how: 'failed'; 'dead' for one that is not worth another try; 'unread',
--          which counts no attempt
-- ARGV[2]  delay: in milliseconds
-- ARGV[3]  attempts: after this many deliveries a message is dead; 0 for what is
--          stored
-- ARGV[4]  reason: for people
-- ARGV     receipts, 'stream:entry' or 'stream:entry:message', at most 1,000
-- Reply    for each receipt 2 if its message is dead now, 1 if it comes again, 0
--          if it is stale
-- Cost     O(log N) a receipt
-- Repeat   harmless: the lane knows the answer
local reply = {}
if streams == 0 then
  for j = 5, #ARGV do
    reply[j - 4] = 0
  end
  return reply
end
if answered then
  for one in string.gmatch(answered, '%d') do
    reply[#reply + 1] = tonumber(one)
  end
  return reply
end
sound()
local how, delay, attempts, reason = ARGV[1], tonumber(ARGV[2]), limit(ARGV[3]), ARGV[4]
local back = 0
for j = 5, #ARGV do
  local index, entry = string.match(ARGV[j], '^(%d+):([%d%-]+)')
  local i = tonumber(index)
  local lost = redis.call('XRANGE', stream_key(i), entry, entry)[1]
  reply[#reply + 1] = 0
  if finish(i, entry) and lost then
    local fields = lost[2]
    local message = field_of(fields, 'i') or entry .. '.' .. i
    local made = tonumber(field_of(fields, 'n') or 0)
    if how ~= 'unread' then
      made = made + 1
    end
    if not field_of(fields, 'w') then
      fields[#fields + 1] = 'w'
      fields[#fields + 1] = string.match(entry, '^%d+')
    end
    if how == 'dead' or how == 'failed' and made >= attempts then
      bury(fields, message, made, i, reason)
      reply[#reply] = 2
    elseif delay > 0 then
      set_aside(fields, message, made, now + delay, i % streams)
      reply[#reply] = 1
    else
      local to = i % streams
      redis.call('HSET', places, message, to .. ' ' .. put(to, again(message, made, fields)))
      back, reply[#reply] = back + 1, 1
    end
    count(how == 'unread' and 'unread' or 'nacked', 1)
  end
end
book()
count('moved', back)
if #reply > 0 then
  answer(table.concat(reply))
end
if delay > 0 then
  redis.pcall('LPUSH', K .. ':wake', '1')
  redis.pcall('LTRIM', K .. ':wake', 0, 63)
end
ring(back)
return reply
