-- fairqueue.check(K) most -> {...}
--
-- Gives all keys, for a comparison of what is stored twice.
--
-- Needs    record
-- Touches  lanes
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  most: how many fields and members at most
-- Reply    nil without a queue; {how many} if there are more, or more than 16 MiB in hot; else {0; then a
--          list each of fields and values of hot, of messages only what is in front of the body; of K; of young's
--          elements; of members and scores of active, blocked, asleep, flight, delayed, deadlines, dead and backlog}
-- Cost     O(N) of all that the queue has
-- Repeat   harmless: it only reads
if not exists then
  return false
end
local missing = broken()
if missing then
  return missing
end
local sets = {'active', 'blocked', 'asleep', 'flight', 'delayed', 'deadlines', 'dead', 'backlog'}
local total = redis.call('HLEN', hot) + redis.call('LLEN', prefix .. 'young')
for _, name in ipairs(sets) do
  total = total + redis.call('ZCARD', prefix .. name)
end
if total > tonumber(ARGV[1]) then
  return {total}
end
local fields, room, cursor = {}, 16777216, '0'
repeat
  local page = redis.call('HSCAN', hot, cursor, 'COUNT', '100')
  cursor = page[1]
  for i = 1, #page[2], 2 do
    local field, value = page[2][i], page[2][i + 1]
    room = room - #value
    fields[#fields + 1] = field
    fields[#fields + 1] = #field == 16 and string.match(value, '^[^\1]*\1[^\1]*\1') or value
  end
until cursor == '0' or room < 0
if room < 0 then
  return {total}
end
local reply = {0, fields, redis.call('HGETALL', K), redis.call('LRANGE', prefix .. 'young', '0', '-1')}
for _, name in ipairs(sets) do
  reply[#reply + 1] = redis.call('ZRANGE', prefix .. name, '0', '-1', 'WITHSCORES')
end
return reply
