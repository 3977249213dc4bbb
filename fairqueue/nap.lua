-- fairqueue.nap(K) owner pause -> 0, 1 or 2
--
-- Has an owner wait for a while, or ends that.
--
-- Needs    record, flows, limits
-- KEYS[1]  K
-- ARGV[1]  owner, as in limit
-- ARGV[2]  pause: for how many milliseconds from now, at least; '+inf' until it is ended; '' to
--          end it
-- Reply    0 without a queue, 2 if flows are streams
-- Cost     O(log N)
-- Repeat   harmless: a pause is a little longer
if not exists then
  return 0
elseif (streams or '') ~= '' then
  return 2
end
local missing = broken()
if missing then
  return missing
end
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
if ARGV[2] == '' then
  if epoch then
    redis.call('ZREM', prefix .. 'asleep', ARGV[1])
    bring(ARGV[1])
  end
  wake(64)
else
  nap(ARGV[1], ARGV[2] == '+inf' and math.huge or now + ARGV[2])
  wake(earlier)
end
save()
return 1
