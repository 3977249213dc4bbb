-- fairqueue.read(K) id consumer visibility max attempts [stream ...] -> {...}
--
-- Takes messages, going round the streams in which some wait, one message a
-- stream a turn. First it does what is due: brings back messages whose time has
-- come or whose reader did not finish in time.
--
-- A delivered entry is in its group's pending list, under a consumer whose name
-- ends with the visibility, and becomes visible when it has been idle for so long.
-- That list is the only record of what is in flight; the key due only says when to
-- look into it.
--
-- KEYS[1]  K
-- ARGV[1]  id: of the request
-- ARGV[2]  consumer: the reader's name
-- ARGV[3]  visibility: after how many milliseconds messages come again
-- ARGV[4]  max: how many, at most 1,000
-- ARGV[5]  attempts: after this many deliveries a message is dead; 0 for what is
--          stored
-- ARGV     streams to take one message each from before all others
-- ARGV     last, the number of the try
-- Reply    {'1' if paused, milliseconds until something is due or -1, the
--          server's clock, {stream, entry, {field, value, ...}} ...}
-- Cost     O(log N) a message; looks at 4,000 entries in flight and moves about
--          200 at most, and at 1,000 expired ones
-- Repeat   harmless: the answer is replayed by id
local id, consumer = ARGV[1], ARGV[2] .. '/' .. ARGV[3]
local visibility, max, attempts = tonumber(ARGV[3]), tonumber(ARGV[4]), limit(ARGV[5])
local try = ARGV[#ARGV]

if streams == 0 then
  return {'0', -1, string.format('%.0f', now)}
end
local reply = {paused and '1' or '0', -1, string.format('%.0f', now)}

if try ~= '1' then
  local before = reqid_recall(id)
  if before then
    for i, entry in string.gmatch(before, '(%d+) (%S+)') do
      local found_entry = redis.call('XRANGE', stream_key(i), entry, entry)[1]
      if found_entry then
        reply[#reply + 1] = {tonumber(i), entry, found_entry[2]}
      end
    end
    return reply
  end
end
if paused then
  return reply
end

local brought = tend_due(attempts)
note()

-- Whose turn it is.
local got, taken = {}, 0
local wrong, lost
local look, over = {}, string.format('%.0f', now + visibility)

local function deliver(i, n)
  local key = stream_key(i)
  local answer = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', n, 'STREAMS', key, '>')
  if answer and answer.err and string.find(answer.err, 'NOGROUP', 1, true) then
    -- A new stream, or one whose group somebody removed: then all of it waits.
    redis.call('XGROUP', 'CREATE', key, group, '0', 'MKSTREAM')
    local all, known = redis.call('XLEN', key), tonumber(redis.call('HGET', waits, i) or 0)
    if all > known then
      redis.call('HSET', waits, i, all)
      came = came + all - known
      count('recalled', all - known)
    end
    answer = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', n, 'STREAMS', key, '>')
  elseif answer and answer.err then
    return answer
  end
  local list = answer and answer[1] and answer[1][2] or {}
  lost[i] = n
  if #list < n then
    lost[i] = tonumber(redis.call('HGET', waits, i) or 0) -- fewer than were counted: somebody deleted them
  end
  local alive = {}
  for _, one in ipairs(list) do
    local deadline = one[2] and tonumber(field_of(one[2], 'd') or 0) or 0
    if deadline > 0 and deadline <= now then
      finish(i, one[1])
      forget(field_of(one[2], 'i') or one[1] .. '.' .. i)
      count('expired', 1)
    else
      alive[#alive + 1] = {i, one[1], one[2]}
    end
  end
  if #alive > 0 then
    look[#look + 1] = over
    look[#look + 1] = i
  end
  return alive
end

for arg = 6, #ARGV - 1 do
  local i = tonumber(ARGV[arg])
  if taken < max and redis.call('HEXISTS', waits, i) == 1 then
    lost = {}
    local list = deliver(i, 1)
    take(lost)
    if list.err then
      wrong, list = list, {}
    end
    for _, one in ipairs(list) do
      got[#got + 1], taken = one, taken + 1
    end
  end
end

-- A round goes over the streams from the cursor on, as far as there are messages
-- to take. Expired messages make another round necessary; there is an end to that,
-- and the caller comes again.
local looked = 0
while taken < max and looked < max + 1000 and not wrong do
  local open = max - taken
  local round = redis.call('ZRANGEBYSCORE', ready, cursor, '+inf', 'LIMIT', 0, open)
  if #round < open and cursor > 0 then
    for _, i in ipairs(redis.call('ZRANGEBYSCORE', ready, '-inf', '(' .. cursor, 'LIMIT', 0, open - #round)) do
      round[#round + 1] = i
    end
  end
  if #round == 0 then
    break
  end
  local has, share, last, more = redis.call('HMGET', waits, unpack(round)), {}, 0, true
  while open > 0 and more do
    more = false
    for j = 1, #round do
      if open > 0 and tonumber(has[j] or 0) > (share[j] or 0) then
        share[j], open, last, more = (share[j] or 0) + 1, open - 1, j, true
      end
    end
  end
  if last == 0 then -- nothing is known of what waits there
    redis.call('ZREM', ready, unpack(round))
    break
  end
  looked = looked + (max - taken - open)
  lost = {}
  local lists, longest = {}, 0
  for j = 1, #round do
    lists[j] = share[j] and deliver(tonumber(round[j]), share[j]) or {}
    if lists[j].err then -- of a wrong type; what others had counts
      wrong, lists[j] = lists[j], {}
    end
    longest = math.max(longest, #lists[j])
  end
  take(lost)
  for turn = 1, longest do
    for j = 1, #round do
      if lists[j][turn] then
        got[#got + 1], taken = lists[j][turn], taken + 1
      end
    end
  end
  cursor = tonumber(round[last]) + 1
end

if #look > 0 then
  redis.call('ZADD', due, 'LT', unpack(look))
end
drop_streams()
book()
if wrong and #got == 0 then
  return wrong
end
count('moved', brought)
if #got > 0 then
  local list = {}
  for j, one in ipairs(got) do
    list[j] = one[1] .. ' ' .. one[2]
    reply[#reply + 1] = one
  end
  count('delivered', #got)
  redis.call('HSET', K, 'cursor', cursor, 'touched', string.format('%.0f', now))
  reqid_remember(id, table.concat(list, ' '), now_us)
end

local waits_still = waiting + came - left
if waits_still <= 0 then
  redis.call('DEL', wake) -- nobody need wake for what is gone
elseif brought > 0 then
  ring(brought)
end
if #got == 0 then
  if mend_index(waits_still) then
    reply[2] = 0 -- come again at once
  else
    local soonest = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
    if soonest[2] then
      reply[2] = math.max(0, tonumber(soonest[2]) - now)
    end
  end
end
return reply
