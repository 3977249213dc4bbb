-- fragment move: how messages come into streams and leave them
--
-- A message that returns, because its time has come or its reader did not finish,
-- is a new entry at the end of a stream. So each delivery has an entry of its own,
-- and a receipt that names the entry is good for that delivery only.
--
-- Needs    waits
-- Gives    due, delayed, later, places, dead: keys
--          put(i, fields): an entry at the end of stream i
--          again(id, attempts, fields): the fields of a message's next entry
--          finish(i, entry): an entry of stream i that was delivered is gone;
--          whether it was in flight
--          forget(id): where a message is need not be known any more
--          bury(fields, id, attempts, i, reason): a message of stream i is dead
--          set_aside(fields, id, attempts, at, i): a message waits for its time, and
--          then goes into stream i
--          call_at(what, at): there is something to do for what, no later than at
local due, delayed, later = K .. ':due', K .. ':delayed', K .. ':later'
local places, dead = K .. ':places', K .. ':dead'

local function call_at(what, at)
  redis.call('ZADD', due, 'LT', string.format('%.0f', at), what)
end

local function put(i, fields)
  come(i, 1)
  return redis.call('XADD', stream_key(i), '*', unpack(fields))
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
