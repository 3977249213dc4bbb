-- fairqueue.sweep(K) tenant place -> {place, removed}
--
-- Removes messages of a tenant that are delayed, and then those that wait, a page of them.
--
-- Needs    record, always, limits, turns, flight, lane
-- KEYS[1]  K
-- ARGV[1]  tenant: '=TENANT'
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
local from, to = ARGV[1] .. '\1', ARGV[1] .. '\2'
local removed, place, set, list = 0, '', backlog, {}
if ARGV[2] == '' then
  list = redis.call('ZRANGEBYLEX', backlog, '[' .. from, '(' .. to, 'LIMIT', '0', '33')
else
  local kept, looked = 0, redis.call('ZREVRANGE', delayed, ARGV[2], whole(ARGV[2] + 299))
  set = delayed
  for i, member in ipairs(looked) do
    if string.sub(member, 1, #from) == from and #list < 33 then
      list[#list + 1] = member
    else
      kept = kept + 1
    end
    if #list == 33 then
      place = whole(ARGV[2] + kept)
      break
    elseif i == 300 then
      place = whole(ARGV[2] + kept)
    end
  end
end
for _, member in ipairs(list) do
  local id = string.match(member, '^%d(%d+)', string.find(member, '\1', 1, true) + 1)
  removed = removed + redis.call('ZREM', set, member)
  redis.call('ZREM', deadlines, id)
  remove(id)
end
count('cancelled', removed)
save()
answer(place .. ' ' .. removed)
return {place, removed}
