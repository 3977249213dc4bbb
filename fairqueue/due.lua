-- fragment due: what has to be done when its time has come
--
-- Readers have it done for their own queue, and upkeep for those that nobody
-- reads.
--
-- Needs    move
-- Gives    tend_due(attempts): brings back messages whose time has come or whose
--          reader did not finish in time; a message with so many deliveries is
--          dead. Returns how many wait again. Looks at 4,000 entries in flight and
--          moves about 200 at most
--          mend_index(): counts what waits from the streams, and finds messages
--          that the keys due and delayed do not lead to
--          drop_streams(): drops up to 8 streams that are no longer used and empty;
--          returns how many
local function bring_back(budget)
  local brought = 0
  for _, entry in ipairs(redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, budget)) do
    local aside = redis.call('XRANGE', later, entry, entry)[1]
    redis.call('ZREM', delayed, entry)
    redis.call('XDEL', later, entry)
    if aside then
      local fields = aside[2]
      local message = field_of(fields, 'i') or entry .. '.d'
      local i = tonumber(field_of(fields, 's')) % streams
      local back = put(i, again(message, field_of(fields, 'n') or 0, fields))
      redis.call('HSET', places, message, i .. ' ' .. back)
      brought = brought + 1
    end
  end
  local head = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
  redis.call('ZREM', due, 'd')
  if head[2] then
    call_at('d', tonumber(head[2]))
  end
  return brought
end

-- A message whose reader did not finish in time waits again, or is dead.
local function give_back(i, entry, attempts)
  local lost = redis.call('XRANGE', stream_key(i), entry, entry)[1]
  if not finish(i, entry) or not lost then
    return 0
  end
  count('reclaimed', 1)
  local fields = lost[2]
  local message = field_of(fields, 'i') or entry .. '.' .. i
  local made = tonumber(field_of(fields, 'n') or 0) + 1
  if made >= attempts then
    bury(fields, message, made, i, 'its reader did not finish in time, ' .. made .. ' times')
    return 0
  end
  if not field_of(fields, 'w') then
    fields[#fields + 1] = 'w'
    fields[#fields + 1] = string.match(entry, '^%d+')
  end
  local to = i % streams
  redis.call('HSET', places, message, to .. ' ' .. put(to, again(message, made, fields)))
  return 1
end

-- The pending list is in the order of entries and not of their times, so all of
-- it is looked at, a part in each call; where to go on is noted in between. (A page
-- begins with what ended the one before: behind it is more than miniredis can.)
local function reclaim(i, budget, attempts)
  local from, soonest = '-', nil
  local noted = redis.call('HGET', K, 'look:' .. i)
  if noted then
    from, soonest = string.match(noted, '^(%S+) (%d+)$')
    soonest = tonumber(soonest)
  end
  local brought, looked = 0, 0
  while looked < 1000 and brought < budget do
    local page = redis.pcall('XPENDING', stream_key(i), group, from, '+', 100)
    if page.err and string.find(page.err, 'NOGROUP', 1, true) then -- somebody deleted the stream
      page = {}
    elseif page.err then
      page = redis.call('XPENDING', stream_key(i), group, from, '+', 100)
    end
    for _, one in ipairs(page) do
      local left = tonumber(string.match(one[2], '/(%d+)$') or 0) - one[3]
      if left <= 0 then
        brought = brought + give_back(i, one[1], attempts)
      elseif not soonest or now + left < soonest then
        soonest = now + left
      end
      from = one[1]
      looked = looked + 1
    end
    if #page < 100 then
      redis.call('HDEL', K, 'look:' .. i)
      redis.call('ZREM', due, i)
      if soonest then
        call_at(i, soonest)
      end
      return brought
    end
  end
  redis.call('HSET', K, 'look:' .. i, from .. ' ' .. string.format('%.0f', soonest or now))
  return brought
end

local function tend_due(attempts)
  local brought = 0
  for _, what in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, 4)) do
    if brought < 200 then
      brought = brought + (what == 'd' and bring_back(200 - brought) or
        what ~= 'd' and reclaim(tonumber(what), 200 - brought, attempts) or 0)
    end
  end
  return brought
end

-- Somebody may delete a key that indexes messages. What waits in a stream is what
-- its group has not delivered: its length, less what is pending.
local function mend_index()
  for i = 0, span - 1 do
    local n = redis.call('XLEN', stream_key(i))
    for _, one in ipairs(n > 0 and redis.call('XINFO', 'GROUPS', stream_key(i)) or {}) do
      if field_of(one, 'name') == group then
        n = n - field_of(one, 'pending')
      end
    end
    local counted = waits_in(i)
    if n > counted then
      come(i, n - counted)
      count('moved', n - counted)
    elseif n < counted then
      go(i, counted - n)
    end
  end
  local sum = 0
  for i = 0, span - 1 do
    sum = sum + waits_in(i)
  end
  left = left + waiting() - sum -- the record says what the streams do

  local lost, from = redis.call('XLEN', later) - redis.call('ZCARD', delayed), '-'
  while lost > 0 do
    local page = redis.call('XRANGE', later, from, '+', 'COUNT', 1000)
    for _, one in ipairs(page) do
      lost = lost - redis.call('ZADD', delayed, 'NX', field_of(one[2], 'u') or now, one[1])
      from = '(' .. one[1]
    end
    if #page < 1000 then
      break
    end
  end
  local head = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
  if head[2] then
    call_at('d', tonumber(head[2]))
  end
  if redis.call('EXISTS', due) == 0 and in_flight() > 0 then
    for i = 0, span - 1 do
      if redis.call('XLEN', stream_key(i)) > 0 then
        call_at(i, now)
      end
    end
  end
end

-- What was acknowledged is deleted, so a length of 0 says that nothing is in
-- flight either.
local function drop_streams()
  local dropped = 0
  while span > streams and dropped < 8 and redis.call('XLEN', stream_key(span - 1)) == 0 do
    span, dropped = span - 1, dropped + 1
    redis.call('DEL', stream_key(span))
    redis.call('ZREM', due, span)
  end
  if dropped > 0 then
    redis.call('HSET', K, 'span', span)
  end
  return dropped
end
