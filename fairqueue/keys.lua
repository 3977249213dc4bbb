-- fragment keys: all keys of a queue
--
-- They exist from the first write to the deletion: each has a member or a field with an empty
-- name. In a slot that moves, a missing key cannot be told from one on the other node.
--
-- Needs    nothing
-- Touches  messages, backlog, active, blocked, work, flight, delayed, deadlines, dead, deaths, readers, dedupe, dedupes,
--          limits, asleep, buckets, schedules, ticks, lanes:0, lanes:1
-- Beside   wake
-- Gives    remove_keys() -> how many there were: removes a queue
local function remove_keys()
  redis.pcall('UNLINK', prefix .. 'wake')
  return redis.call('UNLINK', K, prefix .. 'messages', prefix .. 'backlog', prefix .. 'active', prefix .. 'blocked', prefix .. 'work',
    prefix .. 'flight', prefix .. 'delayed', prefix .. 'deadlines', prefix .. 'dead', prefix .. 'deaths', prefix .. 'readers',
    prefix .. 'dedupe', prefix .. 'dedupes', prefix .. 'limits', prefix .. 'asleep',
    prefix .. 'buckets', prefix .. 'schedules', prefix .. 'ticks', prefix .. 'lanes:0', prefix .. 'lanes:1')
end
