-- fragment flight: what becomes of messages that were delivered
--
-- A delivery is one member of flight, at the time at which it is visible again. It is the
-- receipt: HOW, c for a reader that Consumes and r for others, C and R for a message with a
-- deadline; its id, 16 digits; since when, 13 digits; 8 random letters; which delivery it
-- is, a colon, and the message's member of backlog. So a receipt that was settled, or whose
-- message became visible again, is no member.
--
-- Needs    record, turns
-- Touches  flight, delayed, deadlines, dead, deaths, dedupe, dedupes
-- Gives    give_back(receipt, failed, delay, limit, reason) -> 0 if the message was cancelled,
--          2 if it is dead now, else 1: has it wait again, or die
--          tend(limit, budget) -> whether more is due: brings back what is due and what
--          was not settled in time, so many of each, and removes twice as many that
--          have expired
--          forget_names(n): forgets so many dedupe ids whose time is over
--          remove(id): removes a message and its dedupe id
--          header(body, id) -> deadline or nil, the beginning and the end of the message's
--          member of backlog, its dedupe id; waiting(beginning) -> that member, or nil
--          put(member, attempts, since): has a message wait
--          returned: how many messages wait again by this call
local flight, delayed, deadlines = prefix .. 'flight', prefix .. 'delayed', prefix .. 'deadlines'
local dead, deaths, dedupe, dedupes = prefix .. 'dead', prefix .. 'deaths', prefix .. 'dedupe', prefix .. 'dedupes'
local returned = 0

local function forget_names(n)
  local old = redis.call('ZRANGEBYSCORE', dedupes, '-inf', now, 'LIMIT', 0, n)
  if #old > 0 then
    redis.call('ZREM', dedupes, unpack(old))
    redis.call('HDEL', dedupe, unpack(old))
  end
end

-- What scripts know of a message: when it expires, how its member of backlog begins and
-- ends, and its dedupe id.
local function header(body, id)
  local deadline, priority, place, name, at = string.match(body, '^(%d*):(.):(%d+):(%d+):()')
  local behind = at + tonumber(place)
  place = string.sub(body, at, behind - 1)
  local flow = string.match(place, '^#%d+') or place
  return tonumber(deadline), flow .. '\1' .. priority .. id, string.sub(place, #flow + 1),
    string.sub(body, behind, behind + tonumber(name) - 1)
end

-- The member of a message that waits, or nil.
local function waiting(first)
  return redis.call('ZRANGEBYLEX', backlog, '[' .. first, '(' .. first .. '\255', 'LIMIT', 0, 1)[1]
end

local function remove(id)
  local body = redis.call('HGET', messages, id)
  if not body then
    return
  end
  redis.call('HDEL', messages, id)
  local _, _, _, name = header(body, id)
  if name ~= '' and redis.call('HGET', dedupe, name) == id then
    redis.call('HDEL', dedupe, name)
    redis.call('ZREM', dedupes, name)
  end
end

-- A member says behind the id how often the message was delivered and since when it
-- waits, unless it is new. One that is set aside has that as its score.
local function again(member, attempts, since)
  local at = string.find(member, '\1', 1, true) + 17
  return string.sub(member, 1, at) .. ';' .. attempts .. (since and ';' .. whole(since) or '') ..
    (string.match(member, '=.*$', at + 1) or '')
end

-- Has a message wait, under its old id.
local function put(member, attempts, since)
  redis.call('ZADD', backlog, 0, again(member, attempts, since))
  local flow = flow_of(member)
  if not redis.call('ZSCORE', blocked, flow) then
    activate(flow)
  end
  returned = returned + 1
end

local function bury(id, member, attempts, reason)
  redis.call('ZREM', deadlines, id)
  redis.call('ZADD', dead, now, id)
  redis.call('HSET', deaths, id, attempts .. ':' .. #member .. ':' .. member .. reason)
  local most, age = unpack(redis.call('HMGET', K, 'dead_most', 'dead_age'))
  local above = most and redis.call('ZCARD', dead) - 1 - most or 0
  local old = above > 0 and redis.call('ZRANGE', dead, 0, math.min(100, above) - 1) or {}
  if age then
    for _, one in ipairs(redis.call('ZRANGEBYSCORE', dead, '-inf', now - age, 'LIMIT', 0, 100)) do
      old[#old + 1] = one
    end
  end
  for _, one in ipairs(old) do
    if one ~= '' and redis.call('ZREM', dead, one) == 1 then
      redis.call('HDEL', deaths, one)
      remove(one)
      count('dropped', 1)
    end
  end
  count('buried', 1)
end

-- Has a message wait again, or die: 0 for one that was cancelled.
local function give_back(receipt, failed, delay, limit, reason)
  local id, delivery, member = string.match(receipt, '^.(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)' .. string.rep('.', 21) .. '(%d+):(.*)$')
  local body = redis.call('HGET', messages, id)
  local made = failed and tonumber(delivery) or delivery - 1
  if not body then
    n.cancelled = math.max(0, n.cancelled - 1)
    return 0
  elseif made >= limit then
    bury(id, member, made, reason)
    return 2
  elseif delay > 0 then
    redis.call('ZADD', delayed, now + delay, again(member, made))
  else
    put(member, made, now)
  end
  local how = string.byte(receipt)
  if how == 67 or how == 82 then -- C, R
    local deadline = header(body, id)
    redis.call('ZADD', deadlines, deadline, id)
  end
  return 1
end

-- Does what is due, so many of each kind.
local function tend(limit, budget)
  local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'WITHSCORES', 'LIMIT', 0, budget)
  for i = 1, #due, 2 do
    local id, attempts = string.match(due[i], '^(%d+);(%d+)', string.find(due[i], '\1', 1, true) + 2)
    redis.call('ZREM', delayed, due[i])
    if redis.call('HEXISTS', messages, id) == 1 then -- it was not cancelled
      put(due[i], attempts, tonumber(due[i + 1]))
    end
  end
  local late = redis.call('ZRANGEBYSCORE', flight, '-inf', now, 'LIMIT', 0, budget)
  for _, receipt in ipairs(late) do
    redis.call('ZREM', flight, receipt)
    land(receipt, true)
    if give_back(receipt, true, 0, limit, 'its reader did not finish in time') > 0 then
      count('reclaimed', 1)
    end
  end
  local over = redis.call('ZRANGEBYSCORE', deadlines, '-inf', now, 'LIMIT', 0, 2 * budget) -- they cost half
  for _, id in ipairs(over) do
    redis.call('ZREM', deadlines, id)
    local body = redis.call('HGET', messages, id)
    if body then
      local _, first = header(body, id)
      local member = waiting(first)
      if member then
        redis.call('ZREM', backlog, member)
        remove(id)
        count('expired', 1)
      end
    end
  end
  if redis.call('ZCARD', flight) <= 1 then
    n.busy = 0
  end
  return #due == 2 * budget or #late == budget or #over == 2 * budget
end
