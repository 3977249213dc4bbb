-- fragment key_write: what a write does besides, reaping and counting
--
-- The index says when to look at a value; what counts is the value's own
-- deadline. One that lives on is written into the index with it. What is no value
-- was not stored by this library and stays; only its place in the index goes.
--
-- Needs  K, due, fresh, now, value_key, deadline_of, stamp
-- Gives  req: the key of the answers, see fragment reqid
--        count(field, by): adds to a counter of the shard, best effort
--        reap(most) -> how many of the index were looked at, at most that many;
--        its first write may be one that a full server refuses
local req = K .. ':req'

local function count(field, by)
  if fresh then
    redis.call('HSET', K, 'version', '1')
    fresh = false
  end
  redis.pcall('HINCRBY', K, field, by)
end

local function reap(most)
  local names = redis.call('ZRANGEBYSCORE', due, '-inf', stamp(now), 'LIMIT', 0, most)
  local reaped = 0
  for _, name in ipairs(names) do
    local key = value_key(name)
    local deadline = deadline_of(key)
    if deadline and deadline > now then
      redis.call('ZADD', due, stamp(deadline), name)
    else
      if deadline then
        reaped = reaped + redis.call('UNLINK', key)
      end
      redis.call('ZREM', due, name)
    end
  end
  if reaped > 0 then
    count('reaped', reaped)
  end
  return #names
end
