-- expiry.hash_scan(K) shards name cursor count -> {cursor, {field, value, ttl, ...}}
--
-- Brings a page of a hash, with the guarantees of ZSCAN; behind a mebibyte of values it
-- brings names only. It writes nothing.
--
-- Needs    shard
-- Touches  K, h:ARGV[2], t:ARGV[2]
-- Without  h:ARGV[2]
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name: of the hash
-- ARGV[3]  cursor: '0' to begin, then that of the last page
-- ARGV[4]  count: about how many fields
-- Reply    the next cursor, '0' at the end, and the fields with their values, nil for
--          one that was not brought, and the milliseconds that are left of each, -1
--          without a deadline
-- Cost     O(count); a hash of few fields comes in one page
-- Repeat   harmless: it only reads
local h, fields, room = prefix .. 'h:' .. ARGV[2], {}, 1048576
local page = redis.call('ZSCAN', prefix .. 't:' .. ARGV[2], ARGV[3], 'COUNT', ARGV[4])
for i = 1, #page[2], 2 do
  local deadline = time_of(page[2][i + 1])
  if deadline > now then
    local value, n = room > 0 and redis.call('HGET', h, page[2][i]), #fields
    fields[n + 1], fields[n + 2] = page[2][i], value
    fields[n + 3] = deadline == math.huge and -1 or math.max(1, deadline - soon)
    room = room - (value and #value or 0)
  end
end
return {page[1], fields}
