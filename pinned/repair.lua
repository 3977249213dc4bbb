-- pinned.repair(K) shards part cursor -> {part, cursor, mended}
--
-- Repairs a page of a shard, and the shard's own keys: it removes their Redis TTL, and adds
-- missing placeholders. Of the index it removes names without a value. After that, if there
-- are more values than names, it enters the values that are missing in the index. The first
-- write is one that a full server accepts.
--
-- Needs    values, tidy
-- Touches  K, lanes:0, lanes:1
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  part: 'due' for a page of the index, 'values' for one of the values
-- ARGV[3]  cursor: where to continue, '0' to begin
-- Reply    the next part and cursor, an empty part at the end; how many things were wrong
-- Cost     O(log N) a name: about 100 of the index, or 10 of the values, which it reads
-- Repeat   harmless: repaired values are not found again
if ARGV[2] ~= 'due' and ARGV[2] ~= 'values' or not string.find(ARGV[3], '^%d+$') then
  return redis.error_reply('ERR not a place in a shard')
end
local part, mended = ARGV[2], redis.call('PERSIST', K) + redis.call('PERSIST', due) + redis.call('PERSIST', values)
mended = mended + redis.call('PERSIST', prefix .. 'lanes:0') + redis.call('PERSIST', prefix .. 'lanes:1')
mended = mended + redis.call('ZADD', due, 'NX', '+inf', '') + redis.call('HSETNX', values, '', '0')
mended = mended + redis.call('HSETNX', prefix .. 'lanes:0', '', '0') + redis.call('HSETNX', prefix .. 'lanes:1', '', '0')

tidy_lanes()

local page
if part == 'due' then
  page = redis.call('ZSCAN', due, ARGV[3], 'COUNT', 100)
  for i = 1, #page[2], 2 do
    if redis.call('HEXISTS', values, page[2][i]) == 0 then
      mended = mended + redis.call('ZREM', due, page[2][i])
    end
  end
else
  page = redis.call('HSCAN', values, ARGV[3], 'COUNT', 10)
  for i = 1, #page[2], 2 do
    local name, deadline = page[2][i], deadline_of(page[2][i + 1])
    if name ~= '' and deadline then
      mended = mended + redis.call('ZADD', due, 'NX', string.format('%.0f', deadline), name)
    end
  end
end
if page[1] == '0' then
  part = part == 'due' and redis.call('HLEN', values) > redis.call('ZCARD', due) and 'values' or ''
end
return {part, page[1], mended}
