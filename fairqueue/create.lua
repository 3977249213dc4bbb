-- fragment create: a new queue
--
-- All keys of a queue are made at once: see keys.
--
-- Needs    record
-- Touches  readers, schedules, ticks, lanes:0, lanes:1
-- Makes    K hash version 2, messages hash, backlog zset 0, active zset, blocked zset, work hash,
--          flight zset, delayed zset, deadlines zset, dead zset, deaths hash, readers hash,
--          dedupe hash, dedupes zset, weights hash, schedules hash, ticks zset
-- Gives    create(streams): makes all keys of a queue that does not exist, with that setting
local function create(setting)
  redis.call('HSET', K, 'version', '2', 'streams', setting)
  for _, name in ipairs({'messages', 'work', 'deaths', 'readers', 'dedupe', 'weights', 'schedules', 'lanes:0', 'lanes:1'}) do
    redis.call('HSETNX', prefix .. name, '', '0')
  end
  redis.call('ZADD', prefix .. 'backlog', 'NX', 0, '')
  for _, name in ipairs({'active', 'blocked', 'flight', 'delayed', 'deadlines', 'dead', 'dedupes', 'ticks'}) do
    redis.call('ZADD', prefix .. name, 'NX', '+inf', '')
  end
end
