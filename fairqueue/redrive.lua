-- fairqueue.redrive(K) id ... -> verdicts
--
-- Makes dead messages wait again, as if they had never been delivered and without their
-- deadline.
--
-- Needs    record, flows, limits, owners, dedupes, returns, answers
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
  local body = verdicts[i] == 1 and redis.call('HGET', hot, id)
  if body then
    local deadline, priority, flow = header(body)
    if deadline then
      sets[id] = string.gsub(body, '^%d+', '', 1)
    end
    enqueue(flow, id, priority, 0, now)
  end
  redriven = redriven + verdicts[i]
end
count('redriven', redriven)
wake(returned)
answer(table.concat(verdicts))
save()
return table.concat(verdicts)
