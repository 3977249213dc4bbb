-- fairqueue.tend(K) limit -> {how many, '1' if schedules are due}
--
-- Does due work. Upkeep also forgets dedupe ids and lanes, and removes a queue that was idle for the time of its
-- setting.
--
-- Needs    record, flows, limits, owners, dedupes, batches, returns, rewind, begin
-- KEYS[1]  K
-- ARGV[1]  limit: after so many deliveries a message is dead, 0 for the stored setting; '' from upkeep
-- Reply    nil without a queue, else {how many messages wait again, at least 1 if more is to do, or -1 if the queue was
--          removed; '1' if the tick of a schedule is due, which the caller writes}
-- Cost     O(log N) a message: 15 with a delay, 15 with a visibility that ended, 30 that expired
-- Repeat   harmless: it does the remaining work
local limit, upkeep = tonumber(ARGV[1]) or 0, ARGV[1] == ''
local after, full = string.match(upkeep and idle or '', '^(%d+)(!?)$')
if after and after ~= '0' and math.max(seen, n.last / 1000) < now - after then
  local set = redis.call('HMGET', K, 'paused', 'dead_most', 'dead_age') -- by an operator
  local left = n.flying + n.blocked + redis.call('HLEN', prefix .. 'limits') + (redis.call('HGET', K, 'sources') or 0) +
    (redis.call('HGET', K, 'batches') or 0) +
    redis.call('ZCOUNT', dedupes, whole(now), '(inf') + ((set[1] or set[2] or set[3]) and 1 or 0)
  for name in string.gmatch('active delayed dead asleep ticks', '%a+') do
    left = left + redis.call('ZCARD', prefix .. name)
  end
  if full == '!' or left == 7 then -- the placeholders
    remove_keys()
    return {-1, '0'}
  end
end
n.next = 1e15
local more = behind > 0 and rewind()
n.used = behind == 0 and seen or more and seen or now
more = age_young(300) or more
more = epoch and resume_due(50) or more
more = run_due(limit > 0 and limit or tonumber(attempts or 5), 15) or more
if upkeep then
  more = forget_dedupes(100) or more
  local over = redis.call('ZRANGEBYSCORE', prefix .. 'buckets', '-inf', instant .. '999', 'LIMIT', '0', '100')
  if #over > 0 then
    redis.call('ZREM', prefix .. 'buckets', unpack(over))
    more = more or #over == 100
  end
  if epoch and n.blocked + n.flying == 0 and redis.call('HLEN', prefix .. 'limits') + redis.call('ZCARD', prefix .. 'asleep') +
    redis.call('ZCARD', prefix .. 'buckets') <= 3 then -- the placeholders
    redis.call('HDEL', K, 'limits')
    limits = false
  end
  local failing = not sets.f and redis.call('HGET', hot, 'f')
  local failed = failing and string.match(failing, '^.*\1%d+ %d+ %d+ (%d+) ')
  if failed and now - failed >= 3600000 then -- the time for which tenants are shown
    gone.f = true
  end
  -- Lanes that had no call for ten minutes. The clock does not decide that, since it may jump: the time that passed between two upkeeps
  -- counts, a minute at most. The score of a lane is that time at the first upkeep since its last call, which replaces the
  -- second of that call by zeros.
  local at, lived = string.match(redis.call('HGET', K, 'lived') or '', '^(%d+) (%d+)$')
  lived = (tonumber(lived) or 0) + math.max(0, math.min(clock[1] - (at or clock[1]), 60))
  redis.call('HSET', K, 'lived', clock[1] .. ' ' .. whole(lived))
  for from, to in pairs({['-inf'] = '(' .. whole(lived - 600), ['(' .. whole(lived)] = '(inf'}) do -- the idle and the new ones
    for _, lane in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'lanes', from, to, 'LIMIT', '0', '100')) do
      local last = redis.call('HGET', hot, 'l' .. lane) or ''
      if last == '' or from == '-inf' and string.sub(last, 28, 37) == '0000000000' then
        gone['l' .. lane] = true
        redis.call('ZREM', prefix .. 'lanes', lane)
      else
        redis.call('ZADD', prefix .. 'lanes', whole(lived), lane)
        sets['l' .. lane] = string.sub(last, 1, 27) .. '0000000000' .. string.sub(last, 38)
      end
    end
  end
end
local soon = n.next
for _, name in ipairs({'flight', 'delayed', 'deadlines', 'ticks', 'asleep'}) do
  soon = math.min(soon, tonumber(redis.call('ZRANGE', prefix .. name, '0', '0', 'WITHSCORES')[2]) or 1e15)
end
n.next = more and now or math.max(now + 1, math.ceil(soon)) -- what it did not look at may be due
if not more then
  redis.call('HSET', K, 'tended', instant)
end
wake(returned + freed)
save_batches()
save_states()
save()
return {more and math.max(1, returned) or returned, redis.call('ZCOUNT', prefix .. 'ticks', '-inf', now) > 0 and '1' or '0'}
