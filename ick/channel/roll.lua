-- fragment roll: a channel's keys and its state before the first write
--
-- Refuses a channel of another version. It reads every key, so that one of a wrong type ends
-- the script here.
--
-- Needs    nothing
-- Touches  K, members, owners
-- Makes    K hash version 1, members zset, owners hash
-- Gives    members, owners: keys
--          size, span, peak, epoch: how many Icks producers use, how many are served, the
--          largest number so far, and the number of the last resize; 0 without a channel
--          now, now_us: the server's clock in milliseconds and in microseconds
--          live: the set of live consumers; count: their number
--          owner: the consumer of each Ick by its index, '' for a retired one, without dead
--          consumers
--          gone: the indices of dead consumers' Icks, as fields of the hash
--          keep(): stores the numbers
--          invalid(first) -> whether ARGV[first] and the next two are no layout
--          adopt(size, span, epoch): stores a caller's layout if it is later
local members, owners = prefix .. 'members', prefix .. 'owners'
local found = redis.call('HMGET', K, 'version', 'size', 'span', 'peak', 'epoch')
if found[1] and found[1] ~= '1' then
  return redis.error_reply('VERSION ' .. found[1])
elseif not found[1] and redis.call('EXISTS', K) == 1 then
  return redis.error_reply('BROKEN the version is missing')
end
local size, span = tonumber(found[2] or 0) or 0, tonumber(found[3] or 0) or 0
local peak, epoch = tonumber(found[4] or 0) or 0, tonumber(found[5] or 0) or 0

local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2]
local now = math.floor(now_us / 1000)

local live, count = {}, 0
for _, member in ipairs(redis.call('ZRANGEBYSCORE', members, '(' .. now, '+inf')) do
  if member ~= '' then
    live[member], count = true, count + 1
  end
end
local owner, gone = {}, {}
local entries = redis.call('HGETALL', owners)
for i = 1, #entries, 2 do
  local index, member = tonumber(entries[i]), entries[i + 1]
  if index and (member == '' or live[member]) then
    owner[index] = member
  elseif index then
    gone[#gone + 1] = entries[i]
  end
end

-- All keys exist as long as the channel: an empty one has a placeholder.
local function keep()
  redis.call('HSET', K, 'version', '1', 'size', size, 'span', span, 'peak', peak,
    'epoch', string.format('%.0f', epoch))
  redis.call('ZADD', members, '+inf', '')
  redis.call('HSETNX', owners, '', '0')
end

local function invalid(first)
  if not string.find(table.concat(ARGV, ' ', first, first + 2), '^%d+ %d+ %d+$') then
    return true
  end
  local its_size, its_span = tonumber(ARGV[first]), tonumber(ARGV[first + 1])
  return its_size > its_span or its_span > 1024 or tonumber(ARGV[first + 2]) >= 2 ^ 53
end

-- Stores the caller's layout if it is later, or if there is no channel. Of an earlier one it
-- stores a larger span: a failover may have lost that resize, and another one came after. So
-- a lost resize leaves no marks in Icks without a consumer. A larger span under the same epoch
-- is one from before Icks were retired.
local function adopt(its_size, its_span, its_epoch)
  local later = size == 0 or its_epoch > epoch
  local wider = 0 < its_epoch and its_epoch < epoch and its_span > span
  if its_size == 0 or not later and not wider then
    return
  end
  if later then
    size, epoch = its_size, its_epoch > 0 and its_epoch or now_us
  end
  span = math.max(span, its_span)
  peak = math.max(peak, span)
  keep()
end
