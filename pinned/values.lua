-- fragment values: a shard of values that is written to
--
-- All values of a shard lie in one hash, and their deadlines in an index. The deadline in
-- front of a value decides; the index says when to check it. Text that is no value of this
-- library stays, and only its entry in the index goes.
--
-- Needs    shard, value
-- Touches  values, due
-- Makes    K hash version 2, values hash, due zset
-- Gives    values, due: keys
--          reap(most) -> how many entries of the index it read, at most that many, and
--          whether more are due: removes expired values, up to a mebibyte; its first write
--          may be one that a full server refuses
local values, due = prefix .. 'values', prefix .. 'due'
redis.call('HLEN', values) -- fails for another type
redis.call('ZCARD', due)

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
