-- fairqueue.review(K) score skip -> {score, skip}
--
-- Gives owners their turn that sleep because of a rate, after the default has changed. The next
-- read has those sleep again that must.
--
-- Needs    record, flows, limits
-- KEYS[1]  K
-- ARGV[1]  score: where to go on; '-inf' at first
-- ARGV[2]  skip: how many with this score are left out
-- Reply    {score, skip}: where to go on; '' at the end
-- Cost     O(log N) for each of 50
-- Repeat   harmless: it does what is left
if not exists or not epoch then
  return {'', '0'}
end
local missing = broken()
if missing then
  return missing
end
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
local list = redis.call('ZRANGEBYSCORE', prefix .. 'asleep', ARGV[1], '(inf', 'WITHSCORES', 'LIMIT', ARGV[2], '50')
local score, skip = ARGV[1], tonumber(ARGV[2])
for i = 1, #list, 2 do
  local owner, at = list[i], tonumber(list[i + 1])
  if list[i + 1] ~= score then
    score, skip = list[i + 1], 0
  end
  if at == math.floor(at) then
    skip = skip + 1
  else
    redis.call('ZREM', prefix .. 'asleep', owner)
    bring(owner)
  end
end
wake(64)
save()
return {#list < 100 and '' or score, whole(skip)}
