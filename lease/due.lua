-- lease.due(K) most claim -> {claimed, name, ...}
--
-- Takes due names out of the index of leases. No other call gets them until the claim ends.
--
-- Needs    nothing
-- Touches  K
-- KEYS[1]  K: a shard of the index
-- ARGV[1]  most: how many names, up to 100
-- ARGV[2]  claim: the duration of the claim in milliseconds
-- Reply    the end of the claim in Unix milliseconds, and the names, the longest due first
-- Cost     O(log N) for each name
-- Repeat   harmless: names that the first run took are due again after the claim
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local names = redis.call('ZRANGEBYSCORE', K, '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[1])
local claimed = string.format('%.0f', now + ARGV[2])
local reply = {claimed}
if #names > 0 then
  redis.call('ZREM', K, '') -- a full server accepts this first write
  for i, name in ipairs(names) do
    redis.call('ZADD', K, claimed, name)
    reply[i + 1] = name
  end
end
return reply
