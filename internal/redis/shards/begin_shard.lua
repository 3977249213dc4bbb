-- fragment begin_shard: creates the keys that all kinds of shards have
--
-- A shard that has lost its record keeps its other keys.
--
-- Needs  check
-- Gives  begin_shard() -> 1, or the error with which it is refused
local function begin_shard()
  local refused = refusal()
  if not (refused and string.match(refused.err, '%u+') == 'NOSHARD') then
    return refused or 1
  elseif not string.find(ARGV[1], '^[1-9]%d?%d?$') or tonumber(ARGV[1]) > 256 then
    return redis.error_reply('ERR a namespace has 1 to 256 shards')
  end
  redis.call('ZCARD', prefix .. 'due') -- fails for another type
  redis.call('HLEN', prefix .. 'lanes:0')
  redis.call('HLEN', prefix .. 'lanes:1')
  redis.call('HSET', K, 'version', wire, 'shards', ARGV[1])
  redis.call('ZADD', prefix .. 'due', 'NX', '+inf', '')
  redis.call('HSETNX', prefix .. 'lanes:0', '', '0')
  redis.call('HSETNX', prefix .. 'lanes:1', '', '0')
  return 1
end
