-- fragment flight: what happens to messages that were delivered
--
-- A delivery is one member of flight, with the end of its visibility as score. The member is
-- the receipt: its KIND, c for a reader of Consume, o for another one where limits count
-- deliveries and r where none do, as a capital for a message with a deadline; the id, 16 digits;
-- the instant of the delivery, 13 digits; 8 random letters; and the message's member of backlog.
-- So a receipt that was settled, or whose visibility has ended, is no member.
--
-- Needs    record, limits, turns, dedupes
-- Touches  flight, delayed, deadlines, dead, deaths
-- Gives    header(body, id) -> deadline or nil; the start and the end of the message's member of
--          backlog; its dedupe id
--          find_waiting(start) -> the member of backlog with that start, or nil
--          enqueue(member, attempts, since): makes a message wait
--          returned: how many messages wait again by this call
--          count(field, by): adds to a counter of the record
--          give_back(receipt, failed, delay, limit, reason) -> 0 if the message was cancelled,
--          2 if it is dead now, else 1: makes it wait again, or die
--          run_due(limit, budget) -> whether more is due: brings back messages whose delay or
--          visibility has ended, budget of each, and removes expired ones, twice as many
--          remove(id, body): removes a message and its dedupe id; body may be nil
local flight, delayed, deadlines = prefix .. 'flight', prefix .. 'delayed', prefix .. 'deadlines'
local dead, deaths = prefix .. 'dead', prefix .. 'deaths'
local returned, no_body = 0, ':4=\1\1'

local function count(field, by)
  if by > 0 then
    redis.call('HINCRBY', K, field, by)
  end
end

local function header(body, id)
  local deadline, priority, stream, rest, name = string.match(body, '^(%d*):(.)(#?%d*)(=[^\1]*)\1([^\1]*)\1')
  if stream == '' then
    return tonumber(deadline), rest .. '\1' .. priority .. id, '', name
  end
  return tonumber(deadline), stream .. '\1' .. priority .. id, rest, name
end

local function find_waiting(start)
  return redis.call('ZRANGEBYLEX', backlog, '[' .. start, '(' .. start .. '\255', 'LIMIT', '0', '1')[1]
end

local function remove(id, body)
  body = body or redis.call('HGET', messages, id)
  redis.call('HDEL', messages, id)
  local _, _, _, name = header(body or no_body, id)
  if name ~= '' and redis.call('HGET', dedupe, name) == id then
    redis.call('HDEL', dedupe, name)
    redis.call('ZREM', dedupes, name)
  end
end

-- Returns the member with the number of deliveries and since when it waits, which a new one
-- does not have. One that is delayed has that instant as its score.
local function again(member, attempts, since)
  local at = string.find(member, '\1', 1, true) + 17
  return string.sub(member, 1, at) .. ';' .. attempts .. (since and ';' .. whole(since) or '') ..
    (string.match(member, '=.*$', at + 1) or '')
end

local function enqueue(member, attempts, since)
  redis.call('ZADD', backlog, '0', again(member, attempts, since))
  local flow = string.sub(member, 1, string.find(member, '\1', 1, true) - 1)
  put({flow})
  returned = returned + 1
end

-- Drops the oldest dead messages beyond the bounds, 20 a call and one for each death.
local drops = 20
local function drop_dead()
  local most, age = unpack(redis.call('HMGET', K, 'dead_most', 'dead_age'))
  if not most and not age then
    return
  end
  local above = redis.call('ZCARD', dead) - 1 - (most or math.huge)
  local oldest = redis.call('ZRANGE', dead, 0, math.max(1, drops) - 1, 'WITHSCORES')
  for i = 1, #oldest, 2 do
    local id = oldest[i]
    if id == '' or above < (i + 1) / 2 and not (age and tonumber(oldest[i + 1]) <= now - age) then
      return
    end
    redis.call('ZREM', dead, id)
    redis.call('HDEL', deaths, id)
    remove(id)
    count('dropped', 1)
    drops = drops - 1
  end
end

local function bury(id, member, attempts, reason)
  redis.call('ZREM', deadlines, id)
  redis.call('ZADD', dead, now, id)
  redis.call('HSET', deaths, id, attempts .. ':' .. #member .. ':' .. member .. (reason == '' and 'no reason given' or reason))
  count('buried', 1)
  drop_dead()
end

local function give_back(receipt, failed, delay, limit, reason)
  local id, member = string.sub(receipt, 2, 17), string.sub(receipt, 39)
  local body = redis.call('HGET', messages, id)
  local made = (string.match(member, '^[^\1]*\1%d+;(%d+)') or 0) + (failed and 1 or 0)
  if not body then
    n.cancelled = math.max(0, n.cancelled - 1)
    return 0
  elseif made >= limit then
    bury(id, member, made, reason)
    return 2
  elseif delay > 0 then
    redis.call('ZADD', delayed, now + delay, again(member, made))
  else
    enqueue(member, made, now)
  end
  if string.byte(receipt) < 97 then -- a capital
    local deadline = header(body, id)
    redis.call('ZADD', deadlines, deadline, id)
  end
  return 1
end

local function run_due(limit, budget)
  local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'WITHSCORES', 'LIMIT', '0', budget)
  for i = 1, #due, 2 do
    local id, attempts = string.match(due[i], '^(%d+);(%d+)', string.find(due[i], '\1', 1, true) + 2)
    redis.call('ZREM', delayed, due[i])
    if redis.call('HEXISTS', messages, id) == 1 then -- it was not cancelled
      enqueue(due[i], attempts, tonumber(due[i + 1]))
    end
  end
  local reclaimed, expired, late = 0, 0, redis.call('ZRANGEBYSCORE', flight, '-inf', now, 'LIMIT', '0', budget)
  for _, receipt in ipairs(late) do
    redis.call('ZREM', flight, receipt)
    if tracked then
      end_deliveries({receipt}, true)
    end
    if give_back(receipt, true, 0, limit, 'its reader did not finish in time') > 0 then
      reclaimed = reclaimed + 1
    end
  end
  local over = redis.call('ZRANGEBYSCORE', deadlines, '-inf', now, 'LIMIT', '0', 2 * budget) -- they cost half
  for _, id in ipairs(over) do
    redis.call('ZREM', deadlines, id)
    local body = redis.call('HGET', messages, id)
    local _, start = header(body or no_body, id)
    local member = body and find_waiting(start)
    if member then
      redis.call('ZREM', backlog, member)
      remove(id, body)
      expired = expired + 1
    end
  end
  count('reclaimed', reclaimed)
  count('expired', expired)
  if redis.call('ZCARD', flight) <= 1 then
    n.busy = 0
  end
  return #due == 2 * budget or #late == budget or #over == 2 * budget
end
