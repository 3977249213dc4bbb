-- fragment move: how messages come into streams and leave them
--
-- A message that returns, because its time has come or its reader did not finish,
-- is a new entry at the end of a stream. So each delivery has an entry of its own,
-- and a receipt that names the entry is good for that delivery only.
--
-- Needs  open
-- Gives  put(i, fields): an entry at the end of stream i, which then waits
--        take(i, n): n entries of stream i wait no longer
--        again(id, attempts, fields): the fields of a message's next entry
--        finish(i, entry, id): an entry of stream i that was delivered is gone
--        forget(id): where a message is need not be known any more
--        bury(fields, id, attempts, reason): a message is dead
--        set_aside(fields, id, attempts, at, i): a message waits for its time
--        call_at(what, at): there is something to do for what, no later than at
local function call_at(what, at)
  redis.call('ZADD', due, 'LT', string.format('%.0f', at), what)
end

local function put(i, fields)
  local entry = redis.call('XADD', stream_key(i), '*', unpack(fields))
  if redis.call('HINCRBY', waits, i, 1) == 1 then
    redis.call('ZADD', ready, i, i)
  end
  return entry
end

local function take(i, n)
  if redis.call('HINCRBY', waits, i, -n) <= 0 then
    redis.call('HDEL', waits, i)
    redis.call('ZREM', ready, i)
  end
  count('out', n)
end

local function again(id, attempts, fields)
  local next_fields = {'i', id, 'n', attempts}
  for j = 1, #fields, 2 do
    local name = fields[j]
    if name ~= 'i' and name ~= 'n' and name ~= 's' then
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
  if redis.call('XACK', key, group, entry) == 0 then
    return false
  end
  redis.call('XDEL', key, entry)
  return true
end

local function bury(fields, id, attempts, reason)
  local last = again(id, attempts, fields)
  last[#last + 1] = 'r'
  last[#last + 1] = reason
  local entry = redis.call('XADD', dead, '*', unpack(last))
  redis.call('HSET', places, id, 'x ' .. entry)
  count('buried', 1)
end

local function set_aside(fields, id, attempts, at, i)
  local aside = again(id, attempts, fields)
  aside[#aside + 1] = 's'
  aside[#aside + 1] = i
  local entry = redis.call('XADD', later, '*', unpack(aside))
  redis.call('ZADD', delayed, string.format('%.0f', at), entry)
  redis.call('HSET', places, id, 'd ' .. entry)
  call_at('d', at)
end
