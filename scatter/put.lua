-- scatter.put(K) base leaving fold key number merge owner epoch kind ends {element} -> outcome
--
-- Puts a parcel down: adds it to what this server has of the key. A parcel that was
-- put down before is left, by its number, and so is one whose fold has ended.
--
-- The parcel belongs to the epoch that the key is in on the server that it comes from.
-- If the key is in an earlier one here, that epoch begins now, as a reset has begun it
-- there; if it is in a later one, the parcel goes to what was put aside when that
-- began. The value lives as long as the longer of both.
--
-- The first write is one that a full server refuses.
--
-- KEYS[1]   K, which is empty
-- ARGV[1]   base: what the side keys begin with
-- ARGV[2]   leaving: the name of the server that it comes from
-- ARGV[3]   fold: its number
-- ARGV[4]   key
-- ARGV[5]   number: that of the parcel
-- ARGV[6]   merge: 'sum', 'max' or 'min'
-- ARGV[7]   owner: the key whose epoch counts
-- ARGV[8]   epoch: of the owner there, '' for none; that of its name for an ended value
-- ARGV[9]   kind: 'integer', 'float', 'list', 'set', 'zset', or 'none'
-- ARGV[10]  ends: when it expires, in Unix milliseconds, 0 for never
-- ARGV[11]  element, and so on; of a zset members and scores in turn
-- Reply     'done'; 'undated' if the owner has an epoch here and none there; 'ended'
--           if this fold is not known here; 'type' if the key holds something else;
--           'overflow' if a sum is none of 64 bits
-- Cost      O(elements), times O(log N) for sorted sets; O(N) for a list of N entries,
--           of which the newest 10,000 are kept
-- Repeat    harmless: the number is known
local applied = base .. ':applied:' .. ARGV[2]
local name, merge, owner, epoch, kind = ARGV[4], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local known = redis.call('HMGET', applied, '', name)
if known[1] ~= ARGV[3] then
  return 'ended'
end
if tonumber(known[2] or 0) >= tonumber(ARGV[5]) then
  return 'done'
end

-- A server that is new knows of no epoch: it is in that of the other one. If it is the
-- leaving one, a reset may have begun since the parcel was looked at.
local here = epoch_of(owner)
if here and epoch == '' then
  return 'undated'
end
local undated = not here and epoch ~= ''
here = here or epoch
local begins = earlier(here, epoch)
local key = K .. name
local ends = tonumber(ARGV[10])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if name == owner and earlier(epoch, here) then
  key = ended_key(owner, here)
  ends = now + ended_life
end
local at = key -- where the value is before the epoch begins
if begins and name ~= owner then
  at = K .. owner
end
local held, life = redis.call('TYPE', at).ok, redis.call('PTTL', at)
if begins and name == owner then
  held, life = 'none', -2
elseif begins and held ~= 'none' then
  life = ended_life
end
local late = ends > 0 and ends <= now
local wanted = (kind == 'integer' or kind == 'float') and 'string' or kind
local current, sum = nil, nil
if kind == 'none' or late then
  kind = 'none'
elseif held ~= 'none' and held ~= wanted then
  return 'type'
elseif held == 'string' then
  current = redis.call('GET', at)
  local mine = number_kind(current)
  if not mine then
    return 'type'
  end
  kind = (mine == 'float' or kind == 'float') and 'float' or 'integer'
end

-- Integers of up to 19 digits are compared as texts, since Lua's numbers are coarser.
local function above(a, b)
  if tonumber(a) ~= tonumber(b) or kind == 'float' then
    return tonumber(a) > tonumber(b)
  end
  if string.byte(a) == 45 then
    return earlier(string.sub(a, 2), string.sub(b, 2))
  end
  return earlier(b, a)
end

-- Entries of both, the newest first; of equally old ones those that are here.
local function merged(list)
  local both, i, kept = {}, 11, 0
  for _, entry in ipairs(list) do
    local at = tonumber(string.match(entry, '^%d+ '))
    if not at then
      return nil
    end
    while ARGV[i] and tonumber(string.match(ARGV[i], '^%d+')) > at do
      both[#both + 1] = ARGV[i]
      i = i + 1
    end
    both[#both + 1] = entry
    if i == 11 then
      kept = #both
    end
  end
  for j = i, #ARGV do
    both[#both + 1] = ARGV[j]
  end
  return both, kept
end

local both, kept = nil, nil
if kind == 'list' then
  both, kept = merged(held == 'list' and redis.call('LRANGE', at, 0, -1) or {})
  if not both then
    return 'type'
  end
elseif kind == 'zset' and merge == 'sum' and held == 'zset' then
  for i = 11, #ARGV, 2 do
    local score = tonumber(redis.call('ZSCORE', at, ARGV[i]) or 0) + tonumber(ARGV[i + 1])
    if score ~= score then
      return 'overflow' -- of infinity and its opposite
    end
  end
end

-- A sum is its own check, and the first write if there is one.
if current and merge == 'sum' and kind == 'integer' then
  sum = redis.pcall('INCRBY', at, ARGV[11])
elseif current and merge == 'sum' then
  sum = redis.pcall('INCRBYFLOAT', at, ARGV[11])
end
if type(sum) == 'table' then
  return string.find(sum.err, 'OOM') and sum or 'overflow'
end
redis.call('HSET', applied, name, ARGV[5])
if begins then
  begin_epoch(owner, epoch)
elseif undated and name == owner then
  redis.call('HSET', base .. ':epochs', owner, epoch)
end
if kind == 'none' then
  return 'done'
end
if wanted == 'string' then
  if not current or merge == 'max' and above(ARGV[11], current) or merge == 'min' and above(current, ARGV[11]) then
    redis.call('SET', key, ARGV[11], 'KEEPTTL')
  end
elseif kind == 'list' then
  if kept == 0 then
    redis.call('UNLINK', key)
  else
    redis.call('LTRIM', key, 0, kept - 1)
  end
  for i = kept + 1, math.min(#both, 10000), 1000 do
    redis.call('RPUSH', key, unpack(both, i, math.min(i + 999, #both, 10000)))
  end
  redis.call('LTRIM', key, 0, 9999)
elseif kind == 'set' then
  redis.call('SADD', key, unpack(ARGV, 11))
else
  for i = 11, #ARGV, 2 do
    if merge == 'max' then
      redis.call('ZADD', key, 'GT', ARGV[i + 1], ARGV[i])
    elseif merge == 'min' then
      redis.call('ZADD', key, 'LT', ARGV[i + 1], ARGV[i])
    else
      redis.call('ZINCRBY', key, ARGV[i + 1], ARGV[i])
    end
  end
end
if ends == 0 or life == -1 then
  redis.call('PERSIST', key)
else
  redis.call('PEXPIREAT', key, string.format('%.0f', math.max(ends, now + math.max(life, 0))))
end
return 'done'
