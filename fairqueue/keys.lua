-- fragment keys: all keys of a queue
--
-- They exist from the first write to the deletion: each has a member, an element or a field with an
-- empty name; active has another one of 65 tildes, which no script takes out. In a slot that moves, a missing key cannot be told from one on the other node.
--
-- Needs    nothing
-- Touches  hot, backlog, active, blocked, young, flight, delayed, deadlines, dead, deaths, readers, dedupe, dedupes,
--          limits, asleep, buckets, schedules, ticks, lanes
-- Beside   wake, keyed:0, keyed:1
-- Gives    remove_keys() -> how many there were: removes a queue
local function remove_keys()
  redis.pcall('UNLINK', prefix .. 'wake')
  redis.pcall('UNLINK', prefix .. 'keyed:0')
  redis.pcall('UNLINK', prefix .. 'keyed:1')
  return redis.call('UNLINK', K, prefix .. 'hot', prefix .. 'backlog', prefix .. 'active', prefix .. 'blocked', prefix .. 'young',
    prefix .. 'flight', prefix .. 'delayed', prefix .. 'deadlines', prefix .. 'dead', prefix .. 'deaths', prefix .. 'readers',
    prefix .. 'dedupe', prefix .. 'dedupes', prefix .. 'limits', prefix .. 'asleep', prefix .. 'buckets', prefix .. 'schedules',
    prefix .. 'ticks', prefix .. 'lanes')
end
