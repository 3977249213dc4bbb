-- fragment hash_shard: a shard of a namespace of hashes, before anything is written
--
-- Refuses a shard of another version. The record and the index are read first, so
-- that one of a wrong type ends the script here.
--
-- Needs  nothing
-- Gives  K, due, req: keys
--        now, soon: the server's clock in milliseconds, down and up: what stays from
--        now on is counted from soon, so that it does not stay too short
--        count(field, by): adds to a counter of the record, which it makes if it is
--        new; not a script's first write, since a full server refuses it there
--        sweep(of, most): removes at most so many expired fields of a hash, and
--        returns how many
--        rescore(of): puts a hash where it belongs in the index
local K = KEYS[1]
local due, req = K .. ':due', K .. ':req'

local version = redis.call('HGET', K, 'version')
if version and version ~= '1' then
  return redis.error_reply('EXPIRYVERSION ' .. version)
elseif not version and redis.call('EXISTS', K) == 1 then
  return redis.error_reply('EXPIRYBROKEN the version is missing')
end
redis.call('ZCARD', due)

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local soon = clock[1] * 1000 + math.ceil(clock[2] / 1000)

local function count(field, by)
  if not version then
    version = '1'
    redis.call('HSET', K, 'version', version)
  end
  redis.call('HINCRBY', K, field, by)
end

local function sweep(of, most)
  local h, t = K .. ':h:' .. of, K .. ':t:' .. of
  local gone = redis.call('ZRANGEBYSCORE', t, '-inf', now, 'LIMIT', 0, most)
  if #gone > 0 then
    local reaped = redis.call('HDEL', h, unpack(gone))
    redis.call('ZREM', t, unpack(gone))
    count('reaped', reaped)
  end
  return #gone
end

local function rescore(of)
  local head = redis.call('ZRANGE', K .. ':t:' .. of, 0, 0, 'WITHSCORES')
  if head[1] then
    redis.call('ZADD', due, head[2], of)
  else
    redis.call('ZREM', due, of)
  end
end
