-- fragment roll: a channel's keys and its state, before anything is written
--
-- Refuses what is not a channel of this version. Every key is read, so that one
-- of a wrong type ends the script here, before its first write.
--
-- Needs    nothing
-- Touches  K, members, owners
-- Makes    K hash version 1, members zset, owners hash
-- Gives    members, owners: keys
--          size, span, peak, epoch: how many Icks producers use, how many are
--          served, the most that ever were, and the number of the last change;
--          0 when there is no channel
--          now, now_us: the server's clock in milliseconds and in microseconds
--          live: a set of the consumers whose time is not over; count: how many
--          owner: the consumer of each Ick by its index, '' for a retired one;
--          those of consumers that are gone are left out
--          gone: the indices that are left out, as the hash's fields
--          keep(): stores the numbers
--          teach(size, span, epoch): takes over what a caller knows
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

-- The keys exist as long as the channel does: an empty one has a placeholder.
local function keep()
  redis.call('HSET', K, 'version', '1', 'size', size, 'span', span, 'peak', peak,
    'epoch', string.format('%.0f', epoch))
  redis.call('ZADD', members, '+inf', '')
  redis.call('HSETNX', owners, '', '0')
end

-- A caller that knows a later epoch, or one of a channel that does not exist,
-- teaches the channel. So a channel comes into being, and a failover that lost the
-- last resize leaves no marks in Icks that nobody serves.
local function teach(its_size, its_span, its_epoch)
  if its_size == 0 or size > 0 and its_epoch <= epoch then
    return
  end
  size, span = its_size, math.max(span, its_span)
  epoch, peak = its_epoch > 0 and its_epoch or now_us, math.max(peak, span)
  keep()
end
