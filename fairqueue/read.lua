-- fairqueue.read(K) consumer visibility max tended [stream ...] -> {...}
--
-- Takes messages, going round the streams in which some wait, one message a
-- stream a turn. If something is due in the queue, or is not as it should be, it
-- takes nothing and says so: the caller runs fairqueue.catchup and comes again.
--
-- A delivered entry is in its group's pending list, under a consumer whose name
-- ends with the visibility, and becomes visible when it has been idle for so long.
-- That list is the only record of what is in flight; the key due only says when to
-- look into it.
--
-- Needs    waits, lane
-- KEYS[1]  K
-- ARGV[1]  consumer: the reader's name
-- ARGV[2]  visibility: after how many milliseconds messages come again
-- ARGV[3]  max: how many, at most 1,000
-- ARGV[4]  tended: '1' if the caller did just now what was due
-- ARGV     streams to take one message each from before all others
-- Reply    {'1' if paused, '2' if something is due, '3' if a key seems to be lost,
--          else '0'; milliseconds until something is due or -1; the server's
--          clock; {{stream, {{entry, {field, value, ...}}, ...}}, ...} for each
--          round, in which each stream gives one message in turn ...}
-- Cost     O(1) a message; looks at 1,000 expired ones at most
-- Repeat   harmless: the lane knows the answer
local consumer, visibility, max = ARGV[1] .. '/' .. ARGV[2], tonumber(ARGV[2]), tonumber(ARGV[3])

if streams == 0 then
  return {'0', -1, now}
end
local reply = {paused and '1' or '0', -1, now}

if answered then
  for round in string.gmatch(answered, '[^|]+') do
    local streams_read = {}
    for i, first, last in string.gmatch(round, '(%d+) (%S+) (%S+)') do
      streams_read[#streams_read + 1] = {tonumber(i), redis.call('XRANGE', stream_key(i), first, last)}
    end
    reply[#reply + 1] = streams_read
  end
  return reply
end
if paused then
  return reply
end

local due = K .. ':due'
local soonest = tonumber(redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2])
if ARGV[4] ~= '1' and (soonest and soonest <= now or
  span > streams and waits_in(span - 1) == 0 and redis.call('XLEN', stream_key(span - 1)) == 0) then
  reply[1] = '2'
  return reply
end

local taken, expired, recalled, wrong = 0, 0, 0, nil
local look, remembered, got = {}, {}, {}

-- Those whose deadline has come are gone; returns the others.
local function living(i, entries)
  local alive = {}
  for _, one in ipairs(entries) do
    local deadline = tonumber(field_of(one[2], 'd') or nil)
    if deadline and deadline <= now then
      redis.call('XACK', stream_key(i), group, one[1])
      redis.call('XDEL', stream_key(i), one[1])
      redis.call('HDEL', K .. ':places', field_of(one[2], 'i') or one[1] .. '.' .. i)
      expired = expired + 1
    else
      alive[#alive + 1] = one
    end
  end
  return alive
end

local function deliver(i, entries, wanted)
  local n = #entries
  if n < wanted then -- fewer than were counted: somebody deleted them
    go(i, waits_in(i))
  else
    if n > wanted then -- more: somebody deleted the count
      come(i, n - wanted)
      recalled = recalled + n - wanted
    end
    go(i, n)
  end
  if mortal then
    entries = living(i, entries)
    n = #entries
  end
  if n > 0 then
    look[#look + 1] = now + visibility
    look[#look + 1] = i
    got[i], taken = entries, taken + n
  end
end

-- A new stream, or one whose group somebody removed: then all of it waits.
local function regroup(i)
  local made = redis.pcall('XGROUP', 'CREATE', stream_key(i), group, '0', 'MKSTREAM')
  if not made.err then
    local lost = redis.call('XLEN', stream_key(i)) - waits_in(i)
    if lost > 0 then
      come(i, lost)
      count('recalled', lost)
    end
  end
end

-- Takes n messages of each of these streams, if so many wait there. What is wrong
-- with one stream is found before anything is taken from any.
local function take(list, n, again)
  local words, size = {}, #list
  for j = 1, size do
    words[j], words[size + j] = stream_key(list[j]), '>'
  end
  local answer = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', n, 'STREAMS', unpack(words))
  if answer and answer.err then
    if string.find(answer.err, 'NOGROUP', 1, true) and not again then
      for j = 1, size do
        regroup(list[j])
      end
      take(list, n, true)
    elseif size > 1 then
      for j = 1, size do
        take({list[j]}, n)
      end
    else
      wrong = answer
    end
    return
  end
  local at = 1
  for j = 1, size do
    local one = answer and answer[at]
    local wanted = math.min(n, waits_in(list[j]))
    if one and one[1] == words[j] then
      deliver(list[j], one[2], wanted)
      at = at + 1
    else
      deliver(list[j], {}, wanted)
    end
  end
end

local function take_all(list, n)
  for first = 1, n > 0 and #list or 0, 64 do
    take({unpack(list, first, math.min(first + 63, #list))}, n)
  end
end

-- The streams in which messages wait, from the cursor on and then from the first,
-- as many as there are messages to take.
local function round_from(first, past, list, most)
  local at = string.find(packed, '[\1-\255]', 4 * first + 1)
  while at and #list < most do
    local i = math.floor((at - 1) / 4)
    if i >= past then
      break
    end
    if waits_in(i) > 0 then
      list[#list + 1] = i
    end
    at = string.find(packed, '[\1-\255]', 4 * i + 5)
  end
end

-- Puts what was taken from these streams into the reply, in their order.
local function close(round)
  local streams_read, ranges = {}, {}
  for _, i in ipairs(round) do
    local entries = got[i]
    if entries then
      streams_read[#streams_read + 1] = {i, entries}
      ranges[#ranges + 1] = i .. ' ' .. entries[1][1] .. ' ' .. entries[#entries][1]
      got[i] = nil
    end
  end
  if #ranges > 0 then
    reply[#reply + 1] = streams_read
    remembered[#remembered + 1] = table.concat(ranges, ' ')
  end
end

for arg = 5, #ARGV do
  local i = tonumber(ARGV[arg])
  if taken < max and waits_in(i) > 0 then
    take({i}, 1)
    close({i})
  end
end

-- Each has a turn as long as there are messages to take. So all of these streams
-- give as many messages as there were whole turns, or as they have, and those
-- that the last turn came to give one more. Expired messages make another round
-- necessary; there is an end to that, and the caller comes again.
while taken < max and expired < 1000 and not wrong do
  local open, round, turns, gone = max - taken, {}, 0, expired
  round_from(cursor, 1024, round, open)
  round_from(0, cursor, round, open)
  local active = round
  while #active > 0 and open >= #active do
    open, turns = open - #active, turns + 1
    local next_active = {}
    cursor = active[#active] + 1
    for _, i in ipairs(active) do
      if waits_in(i) > turns then
        next_active[#next_active + 1] = i
      end
    end
    active = next_active
  end
  local more, once_more = {}, {}
  for j = 1, math.min(open, #active) do
    more[j], once_more[active[j]] = active[j], true
    cursor = active[j] + 1
  end
  local others = {}
  for _, i in ipairs(round) do
    if not once_more[i] then
      others[#others + 1] = i
    end
  end
  take_all(more, turns + 1)
  take_all(others, turns)
  close(round)
  if #round == 0 or expired == gone then
    break
  end
end

if #look > 0 then
  redis.call('ZADD', due, 'LT', unpack(look))
end
book()
count('expired', expired)
count('moved', recalled)
if waiting() <= 0 then
  redis.call('DEL', K .. ':wake') -- nobody need wake for what is gone
end
if wrong and taken == 0 then
  return wrong
end
if taken > 0 then
  count('delivered', taken)
  redis.call('HSET', K, 'cursor', cursor)
  if expiry then
    redis.call('HSET', K, 'touched', now)
  end
  answer(table.concat(remembered, '|'))
  return reply
end

-- Nothing is there. So it is time to compare what the keys say with each other,
-- since somebody may have deleted one.
local delayed = redis.call('ZCARD', K .. ':delayed')
if ARGV[4] ~= '1' and (waiting() > 0 or redis.call('XLEN', K .. ':later') > delayed or
  delayed > 0 and not redis.call('ZSCORE', due, 'd') or not soonest and in_flight() > 0) then
  reply[1] = '3'
elseif soonest then
  reply[2] = math.max(0, soonest - now)
end
return reply
