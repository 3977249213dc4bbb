-- fragment returns: messages that come again, die or leave
--
-- delayed has messages that wait for an instant, as FLOW \1 PRIORITY ID. deadlines has the ids of those with a deadline.
-- dead has ids by the instant of the death, and deaths 'ATTEMPTS:REASON'.
--
-- Needs    record, flows, limits, owners, dedupes, deliveries, batches, failing
-- Touches  hot, young, flight, delayed, deadlines, dead, deaths
-- Gives    header(body) -> deadline or nil; priority; flow; the owner, '=TENANT'; dedupe id; cost; its batch, see
--          batches, or ''
--          past_of(id) -> how many deliveries a message had; why it was given back last, or ''; since when it waits
--          returned: how many messages wait again by this call
--          count(field, by): adds to a counter of K
--          enqueue(flow, id, priority, made, since, why): makes a message wait that had so many deliveries
--          give_back(receipt, value, failed, wait, limit, reason, took) -> 0 if the message was cancelled, 2 if it is dead
--          now, else 1: makes it wait again, or die
--          age_young(most) -> whether there may be more: moves deliveries that are older than five seconds to flight
--          run_due(limit, budget) -> whether more is due: enqueues messages whose delay or visibility has ended, budget
--          of each, and removes expired ones, twice as many
--          remove(id, body, how): removes a message and its dedupe id; body may be nil; how it leaves its batch, cancelled by default
local delayed, deadlines, dead, deaths = prefix .. 'delayed', prefix .. 'deadlines', prefix .. 'dead', prefix .. 'deaths'
local returned = 0

local function count(field, by)
  if by ~= 0 then
    redis.call('HINCRBY', K, field, by)
  end
end

local function header(body)
  local deadline, cost, batch, priority, stream, owner, name =
    string.match(body or ':4=\1\1', '^(%d*)%*?(%d*)@?([%d,]*):(.)(#?%d*)(=[^\1]*)\1([^\1]*)\1')
  return tonumber(deadline), priority, stream ~= '' and stream or owner, owner, name, tonumber(cost) or 1, batch or ''
end

local function past_of(id)
  local made, since, why = string.match(sets['a' .. id] or redis.call('HGET', hot, 'a' .. id) or '', '^(%d+);(%d+);([^\1]*)')
  return tonumber(made or 0), why or '', tonumber(since or math.floor(id / 1000))
end

local function remove(id, body, how)
  local _, _, _, _, name, _, batch = header(body or sets[id] or redis.call('HGET', hot, id))
  leaves_batch(batch, how or 'cancelled')
  gone[id], gone['a' .. id], sets[id], sets['a' .. id], n.removed = true, true, nil, nil, n.removed + 1
  if name ~= '' and redis.call('HGET', dedupe, name) == id then
    redis.call('HDEL', dedupe, name)
    redis.call('ZREM', dedupes, name)
  end
end

local function enqueue(flow, id, priority, made, since, why)
  sets['a' .. id] = made .. ';' .. whole(since) .. ';' .. why .. '\1'
  if add(flow, priority .. id .. ';') then
    put({flow})
  end
  returned = returned + 1
end

-- Drops the oldest dead messages beyond the bounds, 20 a call and one for each death. 0 is no bound; 90 days have
-- 7,776,000,000 ms.
local drops = 20
local function drop_dead()
  local found = redis.call('HMGET', K, 'dead_most', 'dead_age')
  local most, age = tonumber(found[1] or 10000), tonumber(found[2] or 7776000000)
  local above = most > 0 and redis.call('ZCARD', dead) - 1 - most or 0
  local oldest = redis.call('ZRANGE', dead, 0, math.max(1, drops) - 1, 'WITHSCORES')
  for i = 1, #oldest, 2 do
    local id = oldest[i]
    if id == '' or above < (i + 1) / 2 and (age == 0 or tonumber(oldest[i + 1]) > now - age) then
      return
    end
    redis.call('ZREM', dead, id)
    redis.call('HDEL', deaths, id)
    remove(id)
    count('dropped', 1)
    drops = drops - 1
  end
end

local function die(id, attempts, reason)
  redis.call('ZREM', deadlines, id)
  redis.call('ZADD', dead, now, id)
  gone['a' .. id], sets['a' .. id] = true, nil
  redis.call('HSET', deaths, id, attempts .. ':' .. (reason == '' and 'no reason given' or reason))
  count('buried', 1)
  drop_dead()
end

local function give_back(receipt, value, failed, wait, limit, reason, took)
  local id = finish(receipt, value, took)
  local body = redis.call('HGET', hot, id)
  if not body then
    n.cancelled = math.max(0, n.cancelled - 1)
    return 0
  end
  local made, why, since = past_of(id)
  local deadline, priority, flow, _, _, _, batch = header(body)
  made = made + (failed and 1 or 0)
  if reason ~= '' then
    why = string.gsub(string.sub(reason, 1, 200), '\1', ' ')
  end
  if failed then
    note_failure(string.match(value, '=.*$', 32), made >= limit, why)
  end
  if made >= limit then
    if #batch == 16 then
      leaves_batch(batch, 'dead')
      sets[id] = string.gsub(body, '@%d+', '%0,', 1)
    end
    die(id, made, reason)
    return 2
  elseif is_withdrawn(batch) then
    redis.call('ZREM', deadlines, id)
    remove(id, body)
    count('cancelled', 1)
    return 1
  elseif wait > 0 then
    local first = tonumber(redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]) or math.huge
    earlier = now + wait < first and 1 or earlier
    sets['a' .. id] = made .. ';' .. instant .. ';' .. why .. '\1'
    redis.call('ZADD', delayed, now + wait, flow .. '\1' .. priority .. id)
    due_at(now + wait)
  else
    enqueue(flow, id, priority, made, failed and now or since, why) -- else no handler has had it yet
  end
  if deadline then
    redis.call('ZADD', deadlines, deadline, id)
    due_at(deadline)
  end
  return 1
end

local function age_young(most)
  local list = redis.call('LRANGE', young, '1', whole(most))
  local values = #list > 0 and redis.call('HMGET', hot, unpack(list)) or {}
  local old, late = 0, {}
  for i, receipt in ipairs(list) do
    local at = values[i] and string.sub(values[i], 1, 16) + 0
    if at and at <= micros and micros - at < 5000000 then
      due_at(math.floor(at / 1000) + 10000)
      break
    end
    old = i
    if at and string.byte(values[i], 31) == 46 then -- .
      local ends = string.sub(values[i], 17, 29) - math.max(0, math.floor(at / 1000) - now) -- of a clock that was ahead
      late[#late + 1] = whole(ends)
      late[#late + 1] = receipt
      sets[receipt] = whole(math.min(at, micros)) .. whole(ends) .. string.sub(values[i], 30, 30) .. 'f' .. string.sub(values[i], 32)
    end
  end
  if #late > 0 then
    redis.call('ZADD', flight, unpack(late))
  end
  if old > 0 then
    redis.call('LTRIM', young, whole(old), '-1')
    redis.call('LSET', young, '0', '')
  end
  return old == most
end

local function run_due(limit, budget)
  local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'WITHSCORES', 'LIMIT', '0', budget)
  for i = 1, #due, 2 do
    local flow, priority, id = string.match(due[i], '^([^\1]*)\1(.)(%d+)$')
    redis.call('ZREM', delayed, due[i])
    if redis.call('HEXISTS', hot, id) == 1 then -- else it was lost
      local made, why = past_of(id)
      enqueue(flow, id, priority, made, tonumber(due[i + 1]), why)
    end
  end
  local reclaimed, expired, late = 0, 0, redis.call('ZRANGEBYSCORE', flight, '-inf', now, 'LIMIT', '0', budget)
  for _, receipt in ipairs(late) do
    local value = sets[receipt] or redis.call('HGET', hot, receipt)
    if give_back(receipt, value, true, 0, limit, 'its reader did not finish in time', '') > 0 then
      reclaimed = reclaimed + 1
    end
  end
  local over = redis.call('ZRANGEBYSCORE', deadlines, '-inf', now, 'LIMIT', '0', 2 * budget) -- they cost half
  for _, id in ipairs(over) do
    local is_batch = string.byte(id) == 98 -- b
    if is_batch then
      end_batch(string.sub(id, 2))
    else
      redis.call('ZREM', deadlines, id)
    end
    local body = not is_batch and redis.call('HGET', hot, id) or nil
    local _, priority, flow = header(body)
    if body and take_out(flow, priority .. id) then
      if not head(flow) then
        leave(flow)
      end
      remove(id, body, 'expired')
      expired = expired + 1
    end
  end
  count('reclaimed', reclaimed)
  count('expired', expired)
  return #due == 2 * budget or #late == budget or #over == 2 * budget
end
