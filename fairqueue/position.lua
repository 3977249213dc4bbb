-- fairqueue.position(K) source at streams -> position
--
-- Returns the position of a source, or sets it. Setting creates the queue if there is none.
--
-- Needs    record, create
-- KEYS[1]  K
-- ARGV[1]  source
-- ARGV[2]  at: the position to set, 0 to forget the source; '' to set nothing
-- ARGV[3]  streams: the setting of a new queue
-- Reply    the position before, 0 without one
-- Cost     O(1)
-- Repeat   harmless: it sets the same again
local field = 'at:' .. ARGV[1]
local before = redis.call('HGET', K, field)
if ARGV[2] == '' then
  return before or '0'
end
local sources = redis.call('HGET', K, 'sources') or '0'
if not exists then
  create(ARGV[3])
  save()
end
redis.call('HDEL', K, field) -- a full server does not refuse it, nor then what follows
if ARGV[2] ~= '0' then
  redis.call('HSET', K, field, ARGV[2])
end
redis.call('HSET', K, 'sources', whole(sources + (ARGV[2] ~= '0' and 1 or 0) - (before and 1 or 0)))
return before or '0'
