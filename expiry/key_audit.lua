-- expiry.key_audit(K) cursor -> {cursor, number}
--
-- Goes through the index and removes names of which there is no value, which the
-- server's eviction or another program can have removed. Takes Redis TTLs from
-- the shard's own keys.
--
-- KEYS[1]  K
-- ARGV[1]  cursor: where to go on, '0' to begin
-- Reply    where to go on, '0' at the end; how much was wrong
-- Cost     O(1) a name, about 100 names
-- Repeat   harmless: what is right stays as it is
local page = redis.call('ZSCAN', due, ARGV[1], 'COUNT', 100)
local mended = redis.call('PERSIST', K) + redis.call('PERSIST', due)
for i = 1, #page[2], 2 do
  if redis.call('EXISTS', value_key(page[2][i])) == 0 then
    mended = mended + redis.call('ZREM', due, page[2][i])
  end
end
return {page[1], mended}
