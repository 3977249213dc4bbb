-- ick.parked(K) first count -> {exists, member, until, failure, ...}
--
-- Lists parked members, those that come back soonest first.
--
-- KEYS[1]  K
-- ARGV[1]  first: the rank of the first one
-- ARGV[2]  count: how many, at most 1,000
-- Reply    {1 if there is an Ick, then for each member: itself, when it comes
--          back in milliseconds or 'inf', 'attempts score parked-at reason'}
-- Cost     O(log N + count)
-- Repeat   harmless: it writes nothing
local reply = {exists and 1 or 0}
local page = redis.call('ZRANGE', parked, ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
for i = 1, #page, 2 do
  reply[#reply + 1] = page[i]
  reply[#reply + 1] = page[i + 1]
  reply[#reply + 1] = redis.call('HGET', fails, page[i]) or '0 0 0 '
end
return reply
