-- fragment create: begins a tracker's record
--
-- What is left of a record that is not whole counts for nothing. The keys exist from
-- then on until the tracker is deleted, so that calls go on in a slot that moves.
--
-- Needs    open
-- Makes    K hash version 1, ids zset
-- Gives    make_whole(): begins a new record, with a life of its own, unless it is
--          whole; not a script's first write, since a full server would not refuse
--          it there
local function make_whole()
  if not whole then
    redis.call('HDEL', K, 'passes', 'cursor', 'pass_started_ms', 'full_started_ms', 'full_ended_ms', 'moved_ms',
      'added', 'confirmed', 'removed')
    redis.call('HSET', K, 'version', '1', 'life', clock[1] .. '.' .. clock[2])
    redis.call('ZADD', ids, '+inf', '')
  end
end
