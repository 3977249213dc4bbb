-- fairqueue.redrive(K) id ... -> verdicts
--
-- Makes dead messages wait again, as if they had never been delivered and without their
-- deadline.
--
-- Needs    record, always, limits, turns, flight, wake, lane
-- KEYS[1]  K
-- ARGV     ids, at most 33
-- Reply    a digit for each id: 1 if it was dead
-- Cost     O(log N) an id
-- Repeat   harmless: the lane knows the answer
if not exists then
  return string.rep('0', #ARGV)
elseif answered then
  return answered
end
local missing = broken()
if missing then
  return missing
end
local verdicts, redriven = {}, 0
for i, id in ipairs(ARGV) do
  verdicts[i] = redis.call('ZREM', dead, id)
  redis.call('HDEL', deaths, id)
  local body = verdicts[i] == 1 and redis.call('HGET', messages, id)
  if body then
    local deadline, start, tail = header(body, id)
    if deadline then
      redis.call('HSET', messages, id, (string.gsub(body, '^%d+', '', 1)))
    end
    enqueue(start .. tail, 0, now)
  end
  redriven = redriven + verdicts[i]
end
count('redriven', redriven)
wake(returned)
save()
return answer(table.concat(verdicts))
