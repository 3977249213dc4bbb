-- expiry.scan(K) shards name cursor count -> {micros, cursor, {place, stored, ...}}
--
-- Returns a page of a hash, with the guarantees of HSCAN. It stops before a step would
-- exceed a mebibyte of values.
--
-- Needs    shard
-- Touches  K, h:ARGV[2]
-- Without  h:ARGV[2]
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name: of the hash
-- ARGV[3]  cursor: '0' to begin, then that of the last page
-- ARGV[4]  count: about how many fields
-- Reply    the server's clock in microseconds; the next cursor, '0' at the end; places of
--          fields and what is stored of them, expired ones and the record included
-- Cost     O(count); a small hash comes in one page
-- Repeat   harmless: it only reads
local cursor, found, room = ARGV[3], {}, 1048576
local step
repeat
  step = 0
  local page = redis.call('HSCAN', prefix .. 'h:' .. ARGV[2], cursor, 'COUNT', 10)
  cursor = page[1]
  for i = 1, #page[2], 2 do
    found[#found + 1], found[#found + 2] = page[2][i], page[2][i + 1]
    step = step + #page[2][i + 1]
  end
  room = room - step
until cursor == '0' or #found >= 2 * ARGV[4] or room < step
return {string.format('%.0f', micros), cursor, found}
