-- fragment hash_shard: a shard of hashes that is about to be written to
--
-- A hash has two keys, with the same fields: h holds the values, t the deadlines, which
-- are infinite for fields without. A field that is not in t is not there. Both keys go
-- with the last field, and nothing looks at them after that in the same script: in a
-- slot that moves it would fail. The index due has every hash at its first deadline.
--
-- Needs    shard
-- Touches  due
-- Makes    K hash version 2, due zset
-- Gives    due: the key of the index
--          settle(of, gone, alive, most) -> how many fields were removed since they are
--          expired, and how many in all: removes the fields gone of a hash, of which so
--          many are alive, and at most so many expired ones, and puts the hash where it
--          belongs in the index. It is the last that a script does to a hash, and not a
--          script's first write, since a full server refuses that
local due = prefix .. 'due'
redis.call('ZCARD', due) -- what is something else ends the script here

local function settle(of, gone, alive, most)
  local h, t = prefix .. 'h:' .. of, prefix .. 't:' .. of
  local first = redis.call('ZRANGE', t, 0, 0, 'WITHSCORES')[2]
  if #gone == 0 and time_of(first) > now then
    if first ~= redis.call('ZSCORE', due, of) then
      redis.call('ZADD', due, first, of)
    end
    return 0, 0
  end
  for _, field in ipairs(redis.call('ZRANGEBYSCORE', t, '-inf', now, 'LIMIT', 0, most)) do
    gone[#gone + 1] = field
  end
  local fields, values, taken, removed = redis.call('ZCARD', t), redis.call('HLEN', h), 0, 0
  if #gone > 0 then
    removed = redis.call('HDEL', h, unpack(gone))
    taken = redis.call('ZREM', t, unpack(gone))
  end
  if taken < fields then
    redis.call('ZADD', due, redis.call('ZRANGE', t, 0, 0, 'WITHSCORES')[2], of)
  else
    if removed < values then
      redis.call('UNLINK', h) -- it had fields without a deadline's place, which nobody saw
    end
    redis.call('ZREM', due, of)
  end
  if removed > alive then
    count('reaped', removed - alive)
  end
  return removed - alive, taken
end
