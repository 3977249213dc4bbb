-- directory.lead(K) agent life -> {outcome, agent, settled}
--
-- Makes an agent the leader, unless another one leads. It avoids double work; for
-- safety agents compare the epoch of the map.
--
-- It also stores which server answers, and its run. If that changes, the former server
-- may still confirm old maps for a while, or the newest maps may be lost.
--
-- Touches  agent
-- KEYS[1]  K
-- ARGV[1]  agent: its name
-- ARGV[2]  life: for how long to lead, in milliseconds; 0 to resign
-- Reply    {1, agent, settled} if the agent leads; {0, the leader's name, settled} if
--          another one does; settled is for how many milliseconds the same server has
--          answered, -1 if no other ever did
-- Cost     O(1)
-- Repeat   harmless: the agent leads for a new life
local agent = prefix .. 'agent'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local stored = redis.call('HMGET', agent, 'name', 'until_ms', 'run', 'since_ms')
local since = stored[4]
if stored[3] ~= run then
  since = stored[3] and string.format('%.0f', now)
  redis.call('HSET', agent, 'run', run)
  if since then
    redis.call('HSET', agent, 'since_ms', since)
  end
end
local settled = since and math.max(0, now - tonumber(since)) or -1
if stored[1] and stored[1] ~= ARGV[1] and tonumber(stored[2]) > now then
  return {0, stored[1], settled}
end
redis.call('HSET', agent, 'name', ARGV[1], 'until_ms', string.format('%.0f', now + tonumber(ARGV[2])))
return {1, ARGV[1], settled}
