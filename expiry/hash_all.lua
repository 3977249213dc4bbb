-- expiry.hash_all(K) name most whole -> {expired, page}
--
-- Tells which fields of a hash are expired, so that whoever has them all can leave
-- those out. It writes nothing. A client gets both in one transaction, which
-- spares the server the detour of the values through Lua; a full server refuses
-- transactions, but not this script, which then brings the fields too.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- ARGV[2]  most: how many fields are brought at most, about
-- ARGV[3]  whole: '1' to bring the fields too
-- Reply    {expired fields, at most so many}, and the answer of HSCAN or an empty
--          list
-- Cost     O(most)
-- Repeat   harmless: it only reads
local page = {}
if ARGV[3] == '1' then
  page = redis.call('HSCAN', h, 0, 'COUNT', ARGV[2])
end
return {redis.call('ZRANGEBYSCORE', t, '-inf', now, 'LIMIT', 0, ARGV[2]), page}
