-- expiry.scan(K) shards name cursor count -> {micros, cursor, {place, stored, ...}}
--
-- Returns a page of a hash, with the guarantees of HSCAN. The first step asks for one field,
-- a later one for as many as were seen, up to ten. It stops before a step would exceed a
-- mebibyte if its fields are as large as the largest so far. HSCAN brings all fields of its
-- last bucket: a few on Redis, up to a dozen on Valkey.
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
--          fields and their stored values, expired ones and the record included
-- Cost     O(count); a small hash comes in one page
-- Repeat   harmless: it only reads
local h = prefix .. 'h:' .. ARGV[2]
local cursor, found, room = ARGV[3], {}, 1048576
local left, step, largest, fits = redis.call('HLEN', h), 1, 1, nil
repeat
  local page = redis.call('HSCAN', h, cursor, 'COUNT', step)
  cursor = page[1]
  for i = 1, #page[2], 2 do
    local place, stored = page[2][i], page[2][i + 1]
    found[#found + 1], found[#found + 2] = place, stored
    room, largest = room - #place - #stored, math.max(largest, #place + #stored)
  end
  left = left - #page[2] / 2
  fits = math.floor(room / largest)
  step = math.max(1, math.min(10, #found / 2))
until cursor == '0' or #found >= 2 * ARGV[4] or fits < math.min(8, left)
return {string.format('%.0f', micros), cursor, found}
