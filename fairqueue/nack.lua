-- fairqueue.nack(K) id how delay attempts reason receipt [receipt ...] -> {1 or 0, ...}
--
-- Hands messages back: because they failed, or because nobody is there any more
-- to whom they could be handed. A failed one comes again after the delay, or is
-- dead when it was delivered often enough.
--
-- KEYS[1]  K
-- ARGV[1]  id: of the request
-- ARGV[2]  how: 'failed'; 'dead' for one that is not worth another try; 'unread',
--          which counts no attempt
-- ARGV[3]  delay: in milliseconds
-- ARGV[4]  attempts: after this many deliveries a message is dead; 0 for what is
--          stored
-- ARGV[5]  reason: for people
-- ARGV     receipts, 'stream:entry' or 'stream:entry:message', at most 1,000
-- ARGV     last, the number of the try
-- Reply    for each receipt 2 if its message is dead now, 1 if it comes again, 0
--          if it is stale
-- Cost     O(log N) a receipt
-- Repeat   harmless: the answer is replayed by id
local reply, id = {}, ARGV[1]
if streams == 0 then
  for j = 6, #ARGV - 1 do
    reply[j - 5] = 0
  end
  return reply
end
if ARGV[#ARGV] ~= '1' then
  local before = reqid_recall(id)
  if before then
    for one in string.gmatch(before, '%d') do
      reply[#reply + 1] = tonumber(one)
    end
    return reply
  end
end
sound()
local how, delay, attempts, reason = ARGV[2], tonumber(ARGV[3]), limit(ARGV[4]), ARGV[5]
local back = 0
for j = 6, #ARGV - 1 do
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
  reqid_remember(id, table.concat(reply))
end
if delay > 0 then
  redis.pcall('LPUSH', K .. ':wake', '1')
  redis.pcall('LTRIM', K .. ':wake', 0, 63)
end
ring(back)
return reply
