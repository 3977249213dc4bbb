-- fairqueue.sweep(K) owner place -> {place, removed}
--
-- Removes messages of an owner that are delayed, and then those that wait, a page of them.
--
-- Needs    record, flows, limits, owners, dedupes, returns, answers
-- KEYS[1]  K
-- ARGV[1]  owner, as in limit
-- ARGV[2]  place: how many delayed messages to leave out, from the latest on; '' for those that
--          wait
-- Reply    {where the next page starts, 'none' without a queue, or 'streams' if flows are
--          streams; how many this one removed}; of those that wait, a
--          page that removes fewer than 33 is the last one
-- Cost     O(log N) a message, 33 of them, and O(1) for each of 300 that are looked at
-- Repeat   harmless: the lane knows the answer
if not exists then
  return {'none', 0}
elseif (streams or '') ~= '' then
  return {'streams', 0}
elseif answered then
  local place, removed = string.match(answered, '^(%d*) (%d+)$')
  return {place, tonumber(removed)}
end
local missing = broken()
if missing then
  return missing
end
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
local owner, from = ARGV[1], ARGV[1] .. '\1'
local removed, place = 0, ''
local function remove_one(id)
  redis.call('ZREM', deadlines, id)
  remove(id)
  removed = removed + 1
end
if ARGV[2] == '' then
  while removed < 33 and head(owner) do
    remove_one(string.sub(head(owner), 2, 17))
    pop(owner)
  end
  if removed > 0 and not head(owner) then
    leave(owner)
  end
else
  local kept, looked = 0, redis.call('ZREVRANGE', delayed, ARGV[2], whole(ARGV[2] + 299))
  for i, member in ipairs(looked) do
    if string.sub(member, 1, #from) == from and removed < 33 then
      redis.call('ZREM', delayed, member)
      remove_one(string.match(member, '^%d(%d+)', #from + 1))
    else
      kept = kept + 1
    end
    if removed == 33 or i == 300 then
      place = whole(ARGV[2] + kept)
      break
    end
  end
end
count('cancelled', removed)
answer(place .. ' ' .. removed)
save_states()
save()
return {place, removed}
