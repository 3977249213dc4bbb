-- expiry.repair(K) shards name part cursor -> {part, cursor, mended, reaped}
--
-- Repairs a page of a hash after programs that do not know of deadlines. First it removes
-- entries of the index without a field; then it enters each field by its deadline. It
-- removes a Redis TTL, and some expired fields. The first write is one that a full server
-- accepts.
--
-- Needs    hash, tidy
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name: of the hash
-- ARGV[3]  part: 'places' for a page of the index, 'fields' for one of the fields
-- ARGV[4]  cursor: where to continue, '0' to begin
-- Reply    the next part and cursor, an empty part at the end; how many things were wrong;
--          how many fields were reaped
-- Cost     O(log N) an entry or field: about 100, or a mebibyte of values
-- Repeat   harmless: repaired fields are not found again
local part, cursor, seen = ARGV[3], ARGV[4], 0
local room, step, largest = 1048576, 1, 1
if part ~= 'places' and part ~= 'fields' or not string.find(cursor, '^%d+$') then
  return redis.error_reply('ERR not a place in a hash')
end
local mended = redis.call('PERSIST', K) + redis.call('PERSIST', due) + redis.call('PERSIST', h) + redis.call('PERSIST', t)
tidy_lanes()
if fields == 0 then
  part, mended = '', mended + redis.call('ZCARD', t) + redis.call('ZREM', due, name)
  redis.call('UNLINK', h, t)
elseif part == 'places' then
  local page = redis.call('ZSCAN', t, cursor, 'COUNT', 100)
  cursor = page[1]
  for i = 1, #page[2], 2 do
    if page[2][i] ~= '' and redis.call('HEXISTS', h, page[2][i]) == 0 then
      mended = mended + redis.call('ZREM', t, page[2][i])
    end
  end
  part = cursor == '0' and 'fields' or part
else
  repeat
    local page = redis.call('HSCAN', h, cursor, 'COUNT', step)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local place, deadline = page[2][i], deadline_of(page[2][i + 1]) or math.huge
      if place == '' then
        seen = seen - 1
      elseif deadline == math.huge then
        mended = mended + redis.call('ZREM', t, place)
      elseif time_of(redis.call('ZSCORE', t, place)) ~= deadline then
        redis.call('ZADD', t, string.format('%.0f', deadline), place)
        mended = mended + 1
      end
      seen, room, largest = seen + 1, room - #page[2][i + 1], math.max(largest, #page[2][i + 1])
    end
    step = math.max(1, math.min(10, seen)) -- see scan.lua
  until cursor == '0' or seen >= 100 or room / largest < 8
  if cursor == '0' then
    part = ''
    mended = mended + redis.call('ZADD', t, 'NX', '+inf', '')
  end
end
local reaped = 0
if part == '' and fields > 0 then
  local right = at > 0 and at <= time_of(redis.call('ZRANGE', t, 0, 0, 'WITHSCORES')[2])
  mended = mended + (right and 0 or 1)
  reaped = settle(name, {}, 0, 100, right and at or 0)
end
if mended > 0 then
  count('repaired', mended)
end
return {part, cursor, mended, reaped}
