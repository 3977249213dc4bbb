-- fragment begin_shard: the keys of a new shard
--
-- They are those that both kinds of shards have. What is there of a shard that lost
-- its record stays.
--
-- Needs  check
-- Gives  begin_shard() -> 1, or the error with which it is refused: makes the keys
local function begin_shard()
  local refused = refusal()
  if not (refused and string.find(refused.err, 'NOSHARD', 1, true)) then
    return refused or 1
  end
  redis.call('ZCARD', prefix .. 'due') -- what is something else ends the script here
  redis.call('HLEN', prefix .. 'lanes:0')
  redis.call('HLEN', prefix .. 'lanes:1')
  redis.call('HSET', K, 'version', wire, 'shards', ARGV[1])
  redis.call('ZADD', prefix .. 'due', 'NX', '+inf', '')
  redis.call('HSETNX', prefix .. 'lanes:0', '', '0')
  redis.call('HSETNX', prefix .. 'lanes:1', '', '0')
  return 1
end
