-- fairqueue.check(K) most -> {...}
--
-- Returns all keys, for a comparison of data that is stored twice.
--
-- Needs    record
-- Touches  lanes
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  most: how many fields and members at most
-- Reply    nil without a queue; {how many} if there are more, or more than 16 MiB in hot; else {0; then a
--          list each of fields and values of hot; of K; of young's elements; of members
--          and scores of active, blocked, asleep, flight, delayed, deadlines, dead and backlog}
-- Cost     O(N) of all that the queue has
-- Repeat   harmless: it only reads
local missing = exists and broken()
if not exists or missing then
  return missing
end
local sets = {'active', 'blocked', 'asleep', 'flight', 'delayed', 'deadlines', 'dead', 'backlog'}
local total = redis.call('HLEN', hot) + redis.call('LLEN', prefix .. 'young')
for _, name in ipairs(sets) do
  total = total + redis.call('ZCARD', prefix .. name)
end
local fields, room, cursor = {}, total > tonumber(ARGV[1]) and -1 or 16777216, '0'
while cursor and room >= 0 do
  local page = redis.call('HSCAN', hot, cursor, 'COUNT', '100')
  for _, word in ipairs(page[2]) do
    fields[#fields + 1], room = word, room - #word
  end
  cursor = page[1] ~= '0' and page[1]
end
if room < 0 then
  return {total}
end
local reply = {0, fields, redis.call('HGETALL', K), redis.call('LRANGE', prefix .. 'young', '0', '-1')}
for _, name in ipairs(sets) do
  reply[#reply + 1] = redis.call('ZRANGE', prefix .. name, '0', '-1', 'WITHSCORES')
end
return reply
