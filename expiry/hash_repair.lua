-- expiry.hash_repair(K) shards name from most -> {mended, reaped, size, next}
--
-- Mends what writers did that know nothing of deadlines. A deadline without its
-- field is removed, since it would end a field that comes later; a hash without
-- deadlines, which nobody can read, goes; the index is corrected; a Redis TTL is taken
-- away. A few expired fields go on the way. It looks at one page of deadlines, by rank.
--
-- It begins with a write that a full server does not refuse.
--
-- Needs    hash_one
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name: of the hash
-- ARGV[3]  from: the rank of the first deadline to look at
-- ARGV[4]  most: how many to look at, up to 1,000
-- Reply    how many things were mended, how many fields were reaped, how many
--          deadlines there were, and the rank to go on from
-- Cost     O(most * log N)
-- Repeat   harmless: what is mended is not found again
local from, most = tonumber(ARGV[3]), tonumber(ARGV[4])
local orphans, size, page = {}, redis.call('ZCARD', t), redis.call('ZRANGE', t, from, from + most - 1)
for _, field in ipairs(page) do
  if redis.call('HEXISTS', h, field) == 0 then
    orphans[#orphans + 1] = field
  end
end
local first = redis.call('ZRANGE', t, 0, 0, 'WITHSCORES')[2]
local wrong = #orphans + (first == (redis.call('ZSCORE', due, name) or nil) and 0 or 1)
local mended = wrong + redis.call('PERSIST', K) + redis.call('PERSIST', due) + redis.call('PERSIST', h) + redis.call('PERSIST', t)
local reaped, removed = settle(name, orphans, 0, 100)
if mended > 0 then
  count('repaired', mended)
end
return {mended, reaped, size, from + #page - removed}
