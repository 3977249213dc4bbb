-- expiry.hash_scan(K) name cursor count -> {cursor, {field, value, ttl, ...}}
--
-- Brings a page of a hash, with the guarantees of HSCAN. It writes nothing.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- ARGV[2]  cursor: '0' to begin, then that of the last page
-- ARGV[3]  count: about how many fields
-- Reply    the next cursor, '0' at the end, and the fields with the milliseconds
--          that are left of each, -1 without a deadline
-- Cost     O(count); a hash of few fields comes in one page
-- Repeat   harmless: it only reads
local page, fields = redis.call('HSCAN', h, ARGV[2], 'COUNT', ARGV[3]), {}
for i = 1, #page[2], 2 do
  local score = redis.call('ZSCORE', t, page[2][i])
  local left = left_of(score)
  if left ~= 0 then
    local n = #fields
    fields[n + 1], fields[n + 2], fields[n + 3] = page[2][i], page[2][i + 1], left
  end
end
return {page[1], fields}
