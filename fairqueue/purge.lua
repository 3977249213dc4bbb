-- fairqueue.purge(K) id ... -> how many
--
-- Removes dead messages for good.
--
-- Needs    record, flows, limits, owners, dedupes, returns, answers
-- KEYS[1]  K
-- ARGV     ids, at most 33
-- Reply    how many of them were dead
-- Cost     O(log N) an id
-- Repeat   harmless: the lane knows the answer
if not exists then
  return 0
elseif answered then
  return tonumber(answered)
end
local missing = broken()
if missing then
  return missing
end
local purged = 0
for _, id in ipairs(ARGV) do
  if redis.call('ZREM', dead, id) == 1 then
    purged = purged + 1
    redis.call('HDEL', deaths, id)
    remove(id)
  end
end
count('purged', purged)
answer(whole(purged))
save()
return purged
