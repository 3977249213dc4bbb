-- fairqueue.tend(K) limit -> how many, or -1 if the queue is gone
--
-- Does what is due. Upkeep of a queue also forgets dedupe ids and lanes, and removes a queue
-- that was not touched for the time after which it may go.
--
-- Needs    keys, record, turns, flight, wake, tidy
-- KEYS[1]  K
-- ARGV[1]  limit: after so many deliveries a message is dead, 0 for what is stored; '' from
--          upkeep
-- Reply    how many messages wait again or have expired, at least 1 if more is to do; -1
--          if the queue was removed
-- Cost     O(log N) a message, 30 of each kind at most, 60 that expired
-- Repeat   harmless: it does what is left
if not exists then
  return 0
end
local missing = broken()
if missing then
  return missing
end
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
local limit, after, full = tonumber(ARGV[1] ~= '' and ARGV[1] or 0)
if ARGV[1] == '' then
  after, full = string.match(idle or '', '^(%d+)(!?)$')
end
if after and tonumber(after) > 0 and tonumber(redis.call('HGET', K, 'touched') or now) < now - after and
  (full == '!' or redis.call('HLEN', messages) <= 1) then
  remove_keys()
  return -1
end
local more = tend(limit > 0 and limit or tonumber(attempts or 5), 30)
if ARGV[1] == '' then
  idle = false -- upkeep is no use of the queue
  forget_names(500)
  tidy_lanes()
end
wake(returned)
book()
save()
return more and math.max(1, returned) or returned
