-- directory.lead(K) agent life -> {outcome, agent}
--
-- Makes an agent the leader, or leaves it so, unless another one has been it for
-- less than its life. It keeps two agents from doing the same work; what they do is
-- kept apart by the epoch of the map.
--
-- Touches  agent
-- KEYS[1]  K
-- ARGV[1]  agent: its name
-- ARGV[2]  life: for how long to lead, in milliseconds from now; 0 to resign
-- Reply    {1, agent} for the leader; {0, the leader's name} for another one
-- Cost     O(1)
-- Repeat   harmless: the leader stays it
local agent = prefix .. 'agent'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local stored = redis.call('HMGET', agent, 'name', 'until_ms')
if stored[1] and stored[1] ~= ARGV[1] and tonumber(stored[2]) > now then
  return {0, stored[1]}
end
redis.call('HSET', agent, 'name', ARGV[1], 'until_ms', string.format('%.0f', now + tonumber(ARGV[2])))
return {1, ARGV[1]}
