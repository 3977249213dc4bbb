-- fragment create: creates a tracker's record
--
-- It discards an incomplete record. The keys exist until the tracker is deleted, so that calls
-- continue while the slot moves.
--
-- Needs    open
-- Makes    K hash version 1, ids zset
-- Gives    make_whole(): creates a record with a new life unless there is a complete one;
--          never a script's first write, because a full server would accept it there
local function make_whole()
  if not whole then
    redis.call('HDEL', K, 'passes', 'cursor', 'pass_started_ms', 'full_started_ms', 'full_ended_ms', 'moved_ms',
      'added', 'confirmed', 'removed')
    redis.call('HSET', K, 'version', '1', 'life', clock[1] .. '.' .. clock[2])
    redis.call('ZADD', ids, '+inf', '')
  end
end
