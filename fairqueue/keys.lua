-- fragment keys: all keys of a queue
--
-- They exist from the first write to the deletion, each with a member or a field that has
-- an empty name.
--
-- Needs    nothing
-- Touches  messages, backlog, active, blocked, work, flight, delayed, deadlines, dead, deaths, readers, dedupe, dedupes,
--          weights, lanes:0, lanes:1
-- Beside   wake
-- Gives    make_keys(): makes all of a new queue but its record; remove_keys() -> how many
--          there were: removes a queue whole
local function make_keys()
  redis.call('HSETNX', prefix .. 'messages', '', '0')
  redis.call('HSETNX', prefix .. 'work', '', '0')
  redis.call('HSETNX', prefix .. 'deaths', '', '0')
  redis.call('HSETNX', prefix .. 'readers', '', '0')
  redis.call('HSETNX', prefix .. 'dedupe', '', '0')
  redis.call('HSETNX', prefix .. 'weights', '', '0')
  redis.call('HSETNX', prefix .. 'lanes:0', '', '0')
  redis.call('HSETNX', prefix .. 'lanes:1', '', '0')
  redis.call('ZADD', prefix .. 'backlog', 'NX', 0, '')
  redis.call('ZADD', prefix .. 'active', 'NX', '+inf', '')
  redis.call('ZADD', prefix .. 'blocked', 'NX', '+inf', '')
  redis.call('ZADD', prefix .. 'flight', 'NX', '+inf', '')
  redis.call('ZADD', prefix .. 'delayed', 'NX', '+inf', '')
  redis.call('ZADD', prefix .. 'deadlines', 'NX', '+inf', '')
  redis.call('ZADD', prefix .. 'dead', 'NX', '+inf', '')
  redis.call('ZADD', prefix .. 'dedupes', 'NX', '+inf', '')
end

local function remove_keys()
  redis.pcall('UNLINK', prefix .. 'wake')
  return redis.call('UNLINK', K, prefix .. 'messages', prefix .. 'backlog', prefix .. 'active', prefix .. 'blocked', prefix .. 'work',
    prefix .. 'flight', prefix .. 'delayed', prefix .. 'deadlines', prefix .. 'dead', prefix .. 'deaths', prefix .. 'readers',
    prefix .. 'dedupe', prefix .. 'dedupes', prefix .. 'weights', prefix .. 'lanes:0', prefix .. 'lanes:1')
end
