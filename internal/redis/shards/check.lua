-- fragment check: whether a shard has this version and number of shards
--
-- A caller that knows another number knows it from before the namespace was lost, and would
-- use the wrong shard. It reads the record again.
--
-- Needs    nothing
-- Touches  K
-- Gives    wire: the version of stored values or hashes
--          refusal(): the error with which the call is refused, or nil; the first argument
--          of the call is the number of shards
local wire = string.sub(K, 1, 6) == 'mr:key' and '2' or '4'

local function refusal()
  local found = redis.call('HMGET', K, 'version', 'shards')
  if found[1] and found[1] ~= wire then
    return redis.error_reply('VERSION ' .. found[1])
  elseif not found[1] and redis.call('EXISTS', K) == 1 then
    return redis.error_reply('BROKEN the version is missing')
  elseif not found[2] then
    return redis.error_reply('NOSHARD nothing was stored in this shard')
  elseif found[2] ~= ARGV[1] then
    return redis.error_reply('SHARDS the shard is one of ' .. found[2])
  end
end
