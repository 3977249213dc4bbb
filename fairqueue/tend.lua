-- fairqueue.tend(K) -> how many, or -1 if the queue is gone
--
-- Looks after a queue that nobody reads: does what is due, forgets dedupe ids and lanes,
-- and removes a queue that was not touched for the time after which it may go.
--
-- Needs    record, turns, flight, wake, tidy
-- KEYS[1]  K
-- ARGV     none
-- Reply    how many messages wait again or have expired, at least 1 if more is to do; -1
--          if the queue was removed
-- Cost     O(log N) a message, 500 of each kind at most
-- Repeat   harmless: it does what is left
if not exists then
  return 0
end
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
local idle, full = string.match(record.idle_after or '', '^(%d+)(!?)$')
if idle and tonumber(idle) > 0 and tonumber(redis.call('HGET', K, 'touched') or now) < now - idle and
  (full == '!' or redis.call('HLEN', messages) <= 1) then
  for _, key in ipairs({'messages', 'backlog', 'active', 'blocked', 'work', 'flight', 'delayed', 'deadlines', 'dead', 'deaths',
    'readers', 'dedupe', 'dedupes', 'weights', 'lanes:0', 'lanes:1', 'wake'}) do
    redis.call('UNLINK', prefix .. key)
  end
  redis.call('UNLINK', K)
  return -1
end
record.idle_after = false -- upkeep is no use of the queue
local more = tend(tonumber(record.attempts or 5), 500)
forget_names(500)
tidy_lanes()
wake(returned)
book()
save()
return more and math.max(1, returned) or returned
