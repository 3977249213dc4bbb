-- fairqueue.reschedule(K) name due was becomes definition -> 1, 0 or -1
--
-- Changes a schedule, if it is still as its caller saw it. The caller decides its new state.
--
-- Needs    record, answers
-- KEYS[1]  K
-- ARGV[1]  name
-- ARGV[2]  due: when its next tick is looked for, in milliseconds, or '+inf'
-- ARGV[3]  was: its state; '' if there is none
-- ARGV[4]  becomes: its state after that; '' to remove the schedule
-- ARGV[5]  definition: the text to store; '' to keep the stored one
-- Reply    0 if the state is another one: then nothing changed; -1 without a queue
-- Cost     O(log N)
-- Repeat   harmless: the lane knows the answer
local schedules, ticks, name = prefix .. 'schedules', prefix .. 'ticks', ARGV[1]
if not exists then
  return -1
elseif answered then
  return answered
elseif (redis.call('HGET', schedules, 's' .. name) or '') ~= ARGV[3] then
  return 0
end
redis.call('ZCARD', ticks) -- a key of another type ends the script here
if ARGV[5] == '' then
  redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
end
if ARGV[4] == '' then
  redis.call('HDEL', schedules, 's' .. name, 'd' .. name)
  redis.call('ZREM', ticks, name)
else
  redis.call('HSET', schedules, 's' .. name, ARGV[4])
  redis.call('ZADD', ticks, ARGV[2], name)
  if ARGV[5] ~= '' then
    redis.call('HSET', schedules, 'd' .. name, ARGV[5])
  end
  if ARGV[2] ~= '+inf' then -- not every Lua reads that number
    due_at(ARGV[2] + 0)
    wake(ARGV[2] - now <= 1000 and 1 or 0) -- a reader that sleeps for a second would be late
  end
end
answer('1')
save()
return '1'
