-- expiry.hash_repair(K) name from most -> {mended, reaped, size, next}
--
-- Mends what writers did that know nothing of deadlines. A deadline without its
-- field is removed, since it would end a field that comes later; a hash that the
-- index has lost is put back; a Redis TTL is taken away. A few expired fields go
-- on the way. It looks at one page of deadlines, by rank.
--
-- It begins with a write that a full server does not refuse.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- ARGV[2]  from: the rank of the first deadline to look at
-- ARGV[3]  most: how many to look at, up to 1,000
-- Reply    how many things were mended, how many fields were reaped, how many
--          deadlines there are, and the rank to go on from
-- Cost     O(most * log N)
-- Repeat   harmless: what is mended is not found again
local from, most = tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('HLEN', h)
local orphans, page = {}, redis.call('ZRANGE', t, from, from + most - 1)
for _, field in ipairs(page) do
  if redis.call('HEXISTS', h, field) == 0 then
    orphans[#orphans + 1] = field
  end
end

local mended = redis.call('PERSIST', K) + redis.call('PERSIST', due) + redis.call('PERSIST', h) + redis.call('PERSIST', t)
if #orphans > 0 then
  mended = mended + redis.call('ZREM', t, unpack(orphans))
end
local reaped = sweep(name, 100)
local head, known = redis.call('ZRANGE', t, 0, 0, 'WITHSCORES')[2], redis.call('ZSCORE', due, name)
if head and tonumber(head) < tonumber(known or math.huge) then
  mended = mended + 1
end
if head ~= (known or nil) then
  rescore(name)
end
if mended > 0 then
  count('repaired', mended)
end
return {mended, reaped, redis.call('ZCARD', t), from + #page - #orphans - reaped}
