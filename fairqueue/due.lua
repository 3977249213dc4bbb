-- fragment due: what has to be done when its time has come
--
-- Needs  open, move
-- Gives  tend_due(attempts): brings back messages whose time has come or whose
--        reader did not finish in time; a message with so many deliveries is
--        dead. Returns how many wait again. Looks at 4,000 entries in flight and
--        moves about 200 at most
--        drop_streams(): drops up to 8 streams that are no longer used and empty;
--        returns how many
local day = 86400000

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
    bury(fields, message, made, 'its reader did not finish in time, ' .. made .. ' times')
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
-- it is looked at, a part in each call; where to go on is noted in between.
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
    if page.err then -- somebody deleted the stream
      page = {}
    end
    for _, one in ipairs(page) do
      local left = day - one[3]
      if left <= 0 then
        brought = brought + give_back(i, one[1], attempts)
      elseif not soonest or now + left < soonest then
        soonest = now + left
      end
      from = '(' .. one[1]
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
  redis.call('HSET', K, 'look:' .. i, from .. ' ' .. string.format('%.0f', soonest or now + day))
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
  count('in', brought)
  count('moved', brought)
  return brought
end

-- What was acknowledged is deleted, so a length of 0 says that nothing is in
-- flight either.
local function drop_streams()
  local left = span
  while left > streams and span - left < 8 and redis.call('XLEN', stream_key(left - 1)) == 0 do
    left = left - 1
    redis.call('DEL', stream_key(left))
    redis.call('ZREM', due, left)
  end
  if left < span then
    redis.call('HSET', K, 'span', left)
  end
  return span - left
end
