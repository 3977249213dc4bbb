-- fairqueue.position(K) source at -> position or nil
--
-- Returns the position of a source, or sets it.
--
-- Needs    record
-- KEYS[1]  K
-- ARGV[1]  source
-- ARGV[2]  at: the position to set, 0 to forget the source; '' to set nothing
-- Reply    the position before, 0 without one; nil without a queue
-- Cost     O(1)
-- Repeat   harmless: it sets the same again
if not exists then
  return false
end
local field = 'at:' .. ARGV[1]
local before = redis.call('HGET', K, field)
if ARGV[2] ~= '' then
  local sources = redis.call('HGET', K, 'sources') or '0'
  redis.call('HDEL', K, field) -- a full server does not refuse it, nor then what follows
  if ARGV[2] ~= '0' then
    redis.call('HSET', K, field, ARGV[2])
  end
  redis.call('HSET', K, 'sources', whole(sources + (ARGV[2] ~= '0' and 1 or 0) - (before and 1 or 0)))
end
return before or '0'
