-- fragment create: a new queue
--
-- All keys of a queue are made at once: see keys.
--
-- Needs    record
-- Touches  readers, schedules, ticks, limits, asleep, buckets, lanes:0, lanes:1
-- Makes    K hash version 3, messages hash, backlog zset 0, active zset, blocked zset, work hash,
--          flight zset, delayed zset, deadlines zset, dead zset, deaths hash, readers hash,
--          dedupe hash, dedupes zset, limits hash, asleep zset, buckets zset, schedules hash, ticks zset
-- Gives    create(setting): creates the queue, with that setting of streams
local function create(setting)
  redis.call('HSET', K, 'version', '3', 'streams', setting)
  for _, name in ipairs({'messages', 'work', 'deaths', 'readers', 'dedupe', 'limits', 'schedules', 'lanes:0', 'lanes:1'}) do
    redis.call('HSETNX', prefix .. name, '', '0')
  end
  redis.call('ZADD', prefix .. 'backlog', 'NX', '0', '') -- it is read by name, which needs one score for all
  for _, name in ipairs({'active', 'blocked', 'flight', 'delayed', 'deadlines', 'dead', 'dedupes', 'asleep', 'buckets', 'ticks'}) do
    redis.call('ZADD', prefix .. name, 'NX', '+inf', '')
  end
end
