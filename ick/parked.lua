-- ick.parked(K) first count -> {exists, more, member, until, failure, ...}
--
-- Lists parked members in the order of their next try.
--
-- Needs    open
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  first: the rank of the first one
-- ARGV[2]  count: how many, at most 1,000; about 1 MiB in all
-- Reply    {1 if there is an Ick, 1 if there is another page, then for each member: itself,
--          its next try in Unix milliseconds or 'inf', 'attempts score parked-at reason'}
-- Cost     O(log N + count)
-- Repeat   harmless: it only reads
local reply, bytes = {exists and 1 or 0, 0}, 0
local page = redis.call('ZRANGE', parked, ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
for i = 1, #page, 2 do
  local n, failure = #reply, redis.call('HGET', fails, page[i]) or '0 0 0 '
  reply[n + 1], reply[n + 2], reply[n + 3] = page[i], page[i + 1], failure
  bytes = bytes + #page[i] + #failure
  if ARGV[1] + (n + 1) / 3 < resting and (bytes > 1048576 or i + 2 > #page) then
    reply[2] = 1
    break
  end
end
return reply
