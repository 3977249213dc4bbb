-- fairqueue.set(K) field value ... -> 1 or 0
--
-- Changes settings of a queue, and wakes readers.
--
-- Needs    record, flows, limits
-- KEYS[1]  K
-- ARGV     pairs of a field of the record, paused, streams, dead_most or dead_age, and its
--          value; '' to forget it
-- Reply    0 without a queue, 2 for streams where there are limits
-- Cost     O(1)
-- Repeat   harmless: it sets the same again
if not exists then
  return 0
end
if ARGV[1] == 'streams' and ARGV[2] ~= '' and epoch and
  (redis.call('HLEN', prefix .. 'limits') > 1 or redis.call('ZCARD', prefix .. 'asleep') > 1) then
  return 2
end
for i = 1, #ARGV, 2 do
  redis.call('HDEL', K, ARGV[i]) -- a full server does not refuse it, nor then what follows
  if ARGV[i + 1] ~= '' then
    redis.call('HSET', K, ARGV[i], ARGV[i + 1])
  end
  if ARGV[i] == 'paused' then
    paused = ARGV[i + 1] ~= '' and ARGV[i + 1]
  elseif ARGV[i] == 'streams' then
    streams, n.digest = ARGV[i + 1] ~= '' and ARGV[i + 1], ''
    redis.call('HSET', K, 'streamed', '1')
  end
end
wake(64)
save()
return 1
