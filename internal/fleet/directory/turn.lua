-- directory.turn(K) node holder life -> outcome
--
-- Gives the turn of a node to a holder, unless another one has it.
--
-- Touches  turns
-- KEYS[1]  K
-- ARGV[1]  node: its name
-- ARGV[2]  holder: a unique name
-- ARGV[3]  life: how long the turn lasts, in milliseconds; 0 to give it up
-- Reply    1 if the holder has it, or has given it up; 0 if another one has it
-- Cost     O(1)
-- Repeat   harmless: the holder has it for a new life
local turns = prefix .. 'turns'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local stored = redis.call('HGET', turns, ARGV[1])
if stored then
  local last, holder = string.match(stored, '^(%d+) (.*)$')
  if holder ~= ARGV[2] and tonumber(last) > now then
    return 0
  end
end
if ARGV[3] == '0' then
  redis.call('HDEL', turns, ARGV[1])
else
  redis.call('HSET', turns, ARGV[1], string.format('%.0f', now + tonumber(ARGV[3])) .. ' ' .. ARGV[2])
end
return 1
