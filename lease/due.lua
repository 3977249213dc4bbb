-- lease.due(K) most claim -> {claimed, name, ...}
--
-- Takes names out of the index of leases that are to be looked at. For as long as the
-- claim says no other call gets them; a killed caller leaves them to the next.
--
-- Needs    nothing
-- Touches  K
-- KEYS[1]  K: a shard of the index
-- ARGV[1]  most: how many names at most, up to 100
-- ARGV[2]  claim: for how long they are this caller's, in milliseconds
-- Reply    the time until which they are, in Unix milliseconds, and the names, those
--          that have been due for longest first
-- Cost     O(log N) for each name
-- Repeat   harmless: what the first run took is due again when the claim is over
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local names = redis.call('ZRANGEBYSCORE', K, '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[1])
local claimed = string.format('%.0f', now + ARGV[2])
local reply = {claimed}
if #names > 0 then
  redis.call('ZREM', K, '') -- a first write that a full server does not refuse
  for i, name in ipairs(names) do
    redis.call('ZADD', K, claimed, name)
    reply[i + 1] = name
  end
end
return reply
