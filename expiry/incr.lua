-- expiry.incr(K) shards name field by -> value
--
-- Adds to a field that holds a whole number, and keeps its deadline. A missing or expired
-- field starts at 0 without one. Lua's numbers have 53 bits, so Redis adds, in a temporary
-- field of the shard, and checks the number; it need not add a plain one to a new field. The
-- first write is one that a full server refuses.
--
-- Needs    lane, hash
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name: of the hash
-- ARGV[3]  field: its place
-- ARGV[4]  by: a whole number of 64 bits
-- Reply    the new value, as text; the error NUMBER for a field that holds no number, or a
--          sum beyond 64 bits
-- Cost     O(log N)
-- Repeat   harmless: the lane keeps the reply
if answered then
  return answered
end
local field, sum = ARGV[3], ARGV[4]
local deadlines, values = look({field})
local had = deadlines[1]
if not had then
  return redis.error_reply('BROKEN ' .. field .. ' is no value')
end
local old = had > now and string.sub(values[1], 9)
if old or not string.find(sum, '^%-?[1-9]%d*$') or #sum > 18 then
  redis.call('HSET', K, 'sum', old or '0')
  local added = redis.pcall('HINCRBY', K, 'sum', sum)
  sum = redis.call('HGET', K, 'sum')
  redis.call('HDEL', K, 'sum')
  if type(added) == 'table' then
    return redis.error_reply('NUMBER ' .. added.err)
  end
end
if not old then
  list(field, math.huge)
end
store({field, head_of(had > now and had or math.huge) .. sum}, 1)
settle(name, {}, 0, 10, at)
return answer(sum)
