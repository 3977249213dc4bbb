-- fairqueue.tend(K) limit -> {how many, or -1 if the queue is gone; '1' if schedules are due}
--
-- Does what is due. Upkeep also forgets dedupe ids and lanes, and removes a queue that was idle
-- for the time of its setting.
--
-- Needs    keys, record, always, limits, turns, flight, wake, tidy
-- Touches  ticks
-- KEYS[1]  K
-- ARGV[1]  limit: after so many deliveries a message is dead, 0 for the stored setting; '' from
--          upkeep
-- Reply    {how many messages wait again, at least 1 if more is to do, or -1 if the queue was
--          removed; '1' if the tick of a schedule is due, which is the caller's to write}
-- Cost     O(log N) a message: 15 with a delay, 15 with a visibility that ended, 30 that expired
-- Repeat   harmless: it does what is left
if not exists then
  return {0, '0'}
end
local missing = broken()
if missing then
  return missing
end
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
local ticking = redis.call('ZCOUNT', prefix .. 'ticks', '-inf', now) > 0 and '1' or '0'
local limit, after, full = tonumber(ARGV[1] ~= '' and ARGV[1] or 0)
if ARGV[1] == '' then
  after, full = string.match(idle or '', '^(%d+)(!?)$')
end
if after and tonumber(after) > 0 and tonumber(redis.call('HGET', K, 'touched') or now) < now - after and
  (full == '!' or redis.call('HLEN', messages) <= 1 and (redis.call('HGET', K, 'sources') or '0') == '0' and
    redis.call('ZCARD', prefix .. 'ticks') <= 1 and
    not (limits and (redis.call('HLEN', prefix .. 'limits') > 1 or redis.call('ZCARD', prefix .. 'asleep') > 1))) then
  remove_keys()
  return {-1, '0'}
end
local more = run_due(limit > 0 and limit or tonumber(attempts or 5), 15)
if ARGV[1] == '' then
  idle = false -- upkeep does not touch the queue
  forget_dedupes(100)
  tidy_lanes()
  if epoch then
    redis.call('ZREMRANGEBYSCORE', prefix .. 'buckets', '-inf', instant .. '999')
    if tostring(n.blocked) == '0' and redis.call('HLEN', prefix .. 'limits') <= 1 and redis.call('ZCARD', flight) <= 1 and
      redis.call('ZCARD', prefix .. 'asleep') <= 1 and redis.call('ZCARD', prefix .. 'buckets') <= 1 then
      redis.call('HDEL', K, 'limits')
    end
  end
end
wake(returned + freed)
if tracked then
  save_states()
end
save()
return {more and math.max(1, returned) or returned, ticking}
