-- fragment move: how messages come into streams and leave them
--
-- A message that returns, because its time has come or its reader did not finish,
-- is a new entry at the end of a stream. So each delivery has an entry of its own,
-- and a receipt that names the entry is good for that delivery only.
--
-- Needs  waits, ready, due, delayed, later, places, dead, wake: keys
--        stream_key, count, group, waiting: as in open
-- Gives  put(i, fields): an entry at the end of stream i
--        note(): the streams that put added to have so many more that wait
--        take(lost): lost[i] entries of stream i wait no longer, for each i
--        book(): counts what put and take did; once, at the end
--        again(id, attempts, fields): the fields of a message's next entry
--        finish(i, entry): an entry of stream i that was delivered is gone;
--        whether it was in flight
--        forget(id): where a message is need not be known any more
--        bury(fields, id, attempts, i, reason): a message of stream i is dead
--        set_aside(fields, id, attempts, at, i): a message waits for its time, and
--        then goes into stream i
--        call_at(what, at): there is something to do for what, no later than at
--        ring(n): tokens for n readers, as many as messages wait, 64 at most
local came, left, gained = 0, 0, {}

local function call_at(what, at)
  redis.call('ZADD', due, 'LT', string.format('%.0f', at), what)
end

local function put(i, fields)
  local entry = redis.call('XADD', stream_key(i), '*', unpack(fields))
  i = tostring(i)
  gained[i] = (gained[i] or 0) + 1
  came = came + 1
  return entry
end

local function note()
  local indices = {}
  for i in pairs(gained) do
    indices[#indices + 1] = i
  end
  if #indices == 0 then
    return
  end
  local sizes, members = {}, {}
  for j, had in ipairs(redis.call('HMGET', waits, unpack(indices))) do
    local i = indices[j]
    sizes[2 * j - 1], sizes[2 * j] = i, tonumber(had or 0) + gained[i]
    members[2 * j - 1], members[2 * j] = i, i
  end
  redis.call('HSET', waits, unpack(sizes))
  redis.call('ZADD', ready, unpack(members))
  gained = {}
end

local function take(lost)
  local indices, sizes, emptied = {}, {}, {}
  for i in pairs(lost) do
    indices[#indices + 1] = i
  end
  if #indices == 0 then
    return
  end
  for j, had in ipairs(redis.call('HMGET', waits, unpack(indices))) do
    local i, n = indices[j], lost[indices[j]]
    left = left + n
    if tonumber(had or 0) > n then
      sizes[#sizes + 1] = i
      sizes[#sizes + 1] = tonumber(had) - n
    else
      emptied[#emptied + 1] = i
    end
  end
  if #sizes > 0 then
    redis.call('HSET', waits, unpack(sizes))
  end
  if #emptied > 0 then
    redis.call('HDEL', waits, unpack(emptied))
    redis.call('ZREM', ready, unpack(emptied))
  end
end

local function book()
  note()
  count('in', came)
  count('out', left)
end

local function again(id, attempts, fields)
  local next_fields = {'i', id, 'n', attempts}
  for j = 1, #fields, 2 do
    local name = fields[j]
    if name ~= 'i' and name ~= 'n' and name ~= 's' and name ~= 'u' then
      next_fields[#next_fields + 1] = name
      next_fields[#next_fields + 1] = fields[j + 1]
    end
  end
  return next_fields
end

local function forget(id)
  redis.call('HDEL', places, id)
end

local function finish(i, entry)
  local key = stream_key(i)
  if not group or redis.call('XACK', key, group, entry) == 0 then
    return false
  end
  redis.call('XDEL', key, entry)
  return true
end

local function bury(fields, id, attempts, i, reason)
  local last = again(id, attempts, fields)
  for _, word in ipairs({'s', i, 'r', reason}) do
    last[#last + 1] = word
  end
  redis.call('HSET', places, id, 'x ' .. redis.call('XADD', dead, '*', unpack(last)))
  count('buried', 1)
end

local function set_aside(fields, id, attempts, at, i)
  local aside = again(id, attempts, fields)
  local due_at = string.format('%.0f', at)
  for _, word in ipairs({'s', i, 'u', due_at}) do
    aside[#aside + 1] = word
  end
  local entry = redis.call('XADD', later, '*', unpack(aside))
  redis.call('ZADD', delayed, due_at, entry)
  redis.call('HSET', places, id, 'd ' .. entry)
  call_at('d', at)
end

local function ring(n)
  if n > 0 then
    local has = redis.pcall('LLEN', wake)
    local tokens = {}
    for j = 1, type(has) == 'number' and math.min(n, 64 - has, waiting + came - left - has) or 0 do
      tokens[j] = '1'
    end
    if #tokens > 0 then
      redis.pcall('LPUSH', wake, unpack(tokens))
    end
  end
end
