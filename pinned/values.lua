-- fragment values: a shard of values that is written to
--
-- All values of a shard lie in one hash, and their deadlines in an index. The deadline in
-- front of a value decides; the index says when to check it. What is no value of this
-- library stays, and only its entry in the index goes.
--
-- Needs    shard, value
-- Touches  values, due
-- Makes    K hash version 2, values hash, due zset
-- Gives    values, due: keys
--          wrong(name, ttl): an error unless a value may have that name, which is not that of
--          a placeholder or a claim, and ttl is a number of 1 to 13 digits
--          reap(most) -> how many entries of the index it read, at most that many, and
--          whether more are due: removes expired values, up to a mebibyte; its first write
--          may be one that a full server refuses
local values, due = prefix .. 'values', prefix .. 'due'
redis.call('HLEN', values) -- fails for another type
redis.call('ZCARD', due)

local function wrong(name, ttl)
  if name == '' or #name > 512 or string.byte(name) == 0 then
    return redis.error_reply('ERR the name of a value has 1 to 512 bytes, and no byte 0 first')
  elseif #ttl > 13 or not string.find(ttl, '^[1-9]%d*$') then
    return redis.error_reply('ERR a TTL is a number of milliseconds from 1 on')
  end
end

local function reap(most)
  local names = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, most + 1)
  local looked, reaped, room = 0, 0, 1048576
  while looked < most and names[looked + 1] and room > 0 do
    looked = looked + 1
    local name = names[looked]
    local value = redis.call('HGET', values, name)
    local deadline = deadline_of(value)
    if deadline and deadline > now then
      redis.call('ZADD', due, string.format('%.0f', deadline), name)
    else
      if deadline then
        reaped = reaped + redis.call('HDEL', values, name)
      end
      redis.call('ZREM', due, name)
    end
    room = room - (value and #value or 0)
  end
  if reaped > 0 then
    count('reaped', reaped)
  end
  return looked, names[looked + 1] ~= nil
end
