-- ick.attend(K) member ttl size span epoch released [index ...] [index ...] -> {...}
--
-- Takes a consumer's heartbeat and the Icks that it has released or retired, and replies
-- which Icks it serves.
--
-- The Icks are divided evenly: each consumer's part is the quotient, and one more for as many
-- as the remainder, first for those that have most. A consumer with too few takes Icks without
-- an owner. One with too many learns which to release when their batches are finished, and
-- reports them with its next call. A consumer owns nothing after its TTL.
--
-- Needs    roll
-- KEYS[1]  K
-- ARGV[1]  member: the consumer, 1 to 64 bytes
-- ARGV[2]  ttl: of this heartbeat, in milliseconds
-- ARGV[3]  size as the consumer knows it
-- ARGV[4]  span as the consumer knows it
-- ARGV[5]  epoch as the consumer knows it, 0 for none; the Icks were retired under it
-- ARGV[6]  released: how many Icks were released
-- ARGV     their indices, and then those of retired Icks
-- Reply    {size, span, epoch, {index of an Ick to serve, ...}, {index of an Ick to release,
--          ...}}
-- Cost     O(Icks + consumers), at most 1,024 Icks
-- Repeat   harmless: it states the current state
local member, known = ARGV[1], tonumber(ARGV[5])

if member == '' or #member > 64 or not string.find(ARGV[2], '^%d+$') or invalid(3)
  or not string.find(table.concat(ARGV, '', 6), '^%d+$') or ARGV[6] + 6 > #ARGV then
  return redis.error_reply('ERR invalid arguments of a heartbeat')
end

redis.call('ZREMRANGEBYSCORE', members, '-inf', now) -- a full server accepts this first write
adopt(tonumber(ARGV[3]), tonumber(ARGV[4]), known)
redis.call('ZADD', members, now + tonumber(ARGV[2]), member)
if not live[member] then
  live[member], count = true, count + 1
end
if #gone > 0 then
  redis.call('HDEL', owners, unpack(gone))
end

local function give(index, to)
  owner[index] = to
  if to then
    redis.call('HSET', owners, index, to)
  else
    redis.call('HDEL', owners, index)
  end
end

for i = 7, #ARGV do
  local index = tonumber(ARGV[i])
  if owner[index] == member then
    if i < 7 + tonumber(ARGV[6]) then
      give(index, nil)
    elseif known == epoch and index >= size then
      give(index, '')
    end
  end
end
local before = span
while span > size and owner[span - 1] == '' do
  span = span - 1
  give(span, nil)
end
if span < before then
  redis.call('HSET', K, 'span', span)
end

-- This consumer's part, by the number of Icks of each consumer.
local load, icks = {[member] = 0}, 0
for index = 0, span - 1 do
  local who = owner[index]
  if who ~= '' then
    icks = icks + 1
  end
  if who and who ~= '' then
    load[who] = (load[who] or 0) + 1
  end
end
local rank = 0
for who, has in pairs(load) do
  if has > load[member] or has == load[member] and who < member then
    rank = rank + 1
  end
end
local part = math.floor(icks / count)
if rank < icks % count then
  part = part + 1
end

local serve, surplus = {}, {}
for index = 0, span - 1 do
  if not owner[index] and load[member] < part then
    give(index, member)
    load[member] = load[member] + 1
  end
  if owner[index] == member then
    serve[#serve + 1] = index
    if #serve > part then
      surplus[#surplus + 1] = index
    end
  end
end
return {size, span, string.format('%.0f', epoch), serve, surplus}
