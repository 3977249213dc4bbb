-- scatter.take(K) base fold key target merge -> {outcome, ...}
--
-- Takes a parcel out of a key of a server that leaves: the value itself if it is a
-- number or has at most 1,000 elements, otherwise that many of them, of a list the
-- oldest. The parcel stays here, beside the value, until it has been put down; a key
-- has at most one, and while it has, this returns it again.
--
-- The first write is one that a full server does not refuse.
--
-- KEYS[1]  K, which is empty
-- ARGV[1]  base: what the side keys begin with
-- ARGV[2]  fold: its number
-- ARGV[3]  key
-- ARGV[4]  target: the name of the server that is to get it; '' to take nothing that
--          is not on its way already
-- ARGV[5]  merge: how numbers and scores are put together: 'sum', 'max' or 'min'
-- Reply    {'parcel', its number, target, merge, the epoch of the key, '' for none,
--          kind, when it expires in Unix milliseconds, 0 for never, elements...} with the kinds
--          'integer', 'float', 'list', 'set', 'zset', and 'none' for what has expired
--          meanwhile; {'none'} if there is nothing; {'left', why}: 'hash' or another
--          type, 'text' for what is no number, 'entry' for a list with entries that do
--          not begin with their time, 'long' for one of more than 10,000; {'ended'} if
--          the fold has ended
-- Cost     O(1,000), times O(log N) for a sorted set of N members
-- Repeat   harmless: the parcel on its way is found
if redis.call('HGET', meta, 'fold') ~= ARGV[2] then
  return {'ended'}
end
local most = 1000
local name = ARGV[3]
local key, parcel = K .. name, base .. ':parcel:' .. name
local taken, out = base .. ':taken', base .. ':out'

local function elements(held, at)
  if held == 'string' then
    return {redis.call('GET', at)}
  elseif held == 'list' then
    return redis.call('LRANGE', at, 0, -1)
  elseif held == 'set' then
    return redis.call('SMEMBERS', at)
  elseif held == 'zset' then
    return redis.call('ZRANGE', at, 0, -1, 'WITHSCORES')
  end
  return {}
end

-- Why what is there cannot be folded, and how many elements it has.
local function look(held)
  if held == 'string' then
    return not number_kind(redis.call('GET', key)) and 'text', 1
  elseif held == 'list' then
    local size = redis.call('LLEN', key)
    if size > 10000 then
      return 'long', size
    end
    for _, entry in ipairs(redis.call('LRANGE', key, -most, -1)) do
      if not string.find(entry, '^%d+ ') then
        return 'entry', size
      end
    end
    return false, size
  elseif held == 'set' then
    return false, redis.call('SCARD', key)
  elseif held == 'zset' then
    return false, redis.call('ZCARD', key)
  end
  return held, 0
end

-- Moves a part of a value. What comes in pairs, member and score, goes in as score and
-- member.
local function split(held)
  if held == 'list' then
    redis.call('RPUSH', parcel, unpack(redis.call('LRANGE', key, -most, -1)))
    redis.call('LTRIM', key, 0, -most - 1)
  elseif held == 'set' then
    redis.call('SADD', parcel, unpack(redis.call('SPOP', key, most)))
  else
    local popped, pairs_in = redis.call('ZPOPMIN', key, most), {}
    for i = 1, #popped, 2 do
      pairs_in[i], pairs_in[i + 1] = popped[i + 1], popped[i]
    end
    redis.call('ZADD', parcel, unpack(pairs_in))
  end
end

local note = redis.call('HGET', out, name)
if not note then
  local held = redis.call('TYPE', key).ok
  if held == 'none' or ARGV[4] == '' then
    return {'none'}
  end
  local why, size = look(held)
  if why then
    return {'left', why}
  end
  local life = redis.call('PTTL', key)
  redis.call('HDEL', out, '') -- a full server does not refuse it
  if size <= most then
    redis.call('RENAME', key, parcel)
  else
    split(held)
    if life >= 0 then
      redis.call('PEXPIRE', parcel, life)
    end
  end
  note = redis.call('HINCRBY', taken, name, 1) .. ' ' .. ARGV[5] .. ' ' .. ARGV[4]
  redis.call('HSET', out, name, note)
end

local number, merge, target = string.match(note, '^(%d+) (%a+) (.*)$')
local held, life = redis.call('TYPE', parcel).ok, redis.call('PTTL', parcel)
local content, ends = elements(held, parcel), '0'
if held == 'string' then
  held = number_kind(content[1])
end
if life >= 0 then
  local clock = redis.call('TIME')
  ends = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000) + life)
end
return {'parcel', number, target, merge, epoch_of(name) or '', held, ends, unpack(content)}
