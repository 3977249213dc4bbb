-- fairqueue.tend(K) limit -> {how many, '1' if schedules are due}
--
-- Does what is due. Upkeep also forgets dedupe ids and lanes, and removes a queue that was idle for the time of its
-- setting.
--
-- Needs    record, flows, limits, owners, dedupes, returns, rewind, begin
-- KEYS[1]  K
-- ARGV[1]  limit: after so many deliveries a message is dead, 0 for the stored setting; '' from upkeep
-- Reply    nil without a queue, else {how many messages wait again, at least 1 if more is to do, or -1 if the queue was
--          removed; '1' if the tick of a schedule is due, which is the caller's to write}
-- Cost     O(log N) a message: 15 with a delay, 15 with a visibility that ended, 30 that expired
-- Repeat   harmless: it does what is left
local limit, upkeep = tonumber(ARGV[1]) or 0, ARGV[1] == ''
local after, full = string.match(upkeep and idle or '', '^(%d+)(!?)$')
if after and after ~= '0' and math.max(seen, n.last / 1000) < now - after then
  local set = redis.call('HMGET', K, 'paused', 'dead_most', 'dead_age') -- by an operator
  local left = n.flying + n.blocked + redis.call('HLEN', prefix .. 'limits') + (redis.call('HGET', K, 'sources') or 0) +
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
more = age_young(1000) or more
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
  -- Lanes that were idle for ten minutes at a second look, ten minutes after a first one: a clock that is ahead for a
  -- moment forgets none. The score is the last look, or the use before it.
  local lanes = redis.call('ZRANGE', prefix .. 'lanes', '0', '99', 'WITHSCORES')
  for i = 1, #lanes, 2 do
    local lane, looked = lanes[i], tonumber(lanes[i + 1])
    if lane ~= '' and math.abs(clock[1] - looked) > 600 then
      local last = redis.call('HGET', hot, 'l' .. lane) or ''
      local used = tonumber(string.sub(last, 28, 37)) or 0
      if used < looked and looked <= clock[1] + 0 then
        gone['l' .. lane] = true
        redis.call('ZREM', prefix .. 'lanes', lane)
      else
        redis.call('ZADD', prefix .. 'lanes', clock[1], lane)
        sets['l' .. lane] = used > clock[1] + 0 and string.sub(last, 1, 27) .. clock[1] .. string.sub(last, 38) or nil
      end
    end
  end
end
local soon = n.next
for _, name in ipairs({'flight', 'delayed', 'deadlines', 'ticks', 'asleep'}) do
  soon = math.min(soon, tonumber(redis.call('ZRANGE', prefix .. name, '0', '0', 'WITHSCORES')[2]) or 1e15)
end
n.next = math.max(now + (more and 0 or 1), math.ceil(soon))
if not more then
  redis.call('HSET', K, 'tended', instant)
end
wake(returned + freed)
save_states()
save()
return {more and math.max(1, returned) or returned, redis.call('ZCOUNT', prefix .. 'ticks', '-inf', now) > 0 and '1' or '0'}
