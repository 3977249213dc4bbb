-- fragment create: a new queue
--
-- All keys of a queue are made at once: see keys.
--
-- Needs    record
-- Makes    K hash version 3, hot hash, backlog zset 0, active zset long, blocked zset, young list,
--          flight zset, delayed zset, deadlines zset, dead zset, deaths hash, readers hash,
--          dedupe hash, dedupes zset, limits hash, asleep zset, buckets zset, schedules hash, ticks zset, lanes zset
-- Gives    create(setting): creates the queue, with that setting of streams
local function create(setting)
  redis.call('HSET', K, 'version', '3', 'streams', setting)
  if setting ~= '' then
    redis.call('HSET', K, 'streamed', '1')
  end
  streams, n.digest, n.sleepers = setting, '', 64 -- readers may wait for a queue that did not exist
  renew_roll() -- they may be registered in an earlier queue of this name
  for name in string.gmatch(hashes, '%a+') do
    redis.call('HSETNX', prefix .. name, '', '0')
  end
  redis.call('ZADD', backlog, 'NX', '0', '') -- it is read by name, which needs one score for all
  for name in string.gmatch(sorted_sets, '%a+') do
    redis.call('ZADD', prefix .. name, 'NX', '+inf', '')
  end
  redis.call('ZADD', active, 'NX', '+inf', string.rep('~', 65)) -- with so long a member the server keeps a tree, which it changes faster
  if redis.call('LLEN', prefix .. 'young') == 0 then
    redis.call('RPUSH', prefix .. 'young', '')
  end
end
