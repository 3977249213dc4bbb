-- directory.moves(K) run life adopt -> outcome
--
-- Registers a run that moves tags, or removes it. An agent finishes runs whose life has
-- ended: it adopts all of them, but only if no other run goes on, which might move the
-- same tags.
--
-- Touches  moves
-- KEYS[1]  K
-- ARGV[1]  run: its name
-- ARGV[2]  life: how long the registration lasts, in milliseconds; 0 to remove it
-- ARGV[3]  adopt: 1 to register it in place of runs whose life has ended
-- Reply    1 if the run is registered, or removed; 0 if there was nothing to adopt
-- Cost     O(runs), a few
-- Repeat   harmless: the run is registered for a new life
local moves = prefix .. 'moves'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] == '0' then
  redis.call('HDEL', moves, ARGV[1])
  return 1
end
if ARGV[3] == '1' then
  local runs = redis.call('HGETALL', moves)
  if #runs == 0 then
    return 0
  end
  for i = 2, #runs, 2 do
    if runs[i - 1] ~= ARGV[1] and tonumber(runs[i]) > now then
      return 0
    end
  end
  redis.call('DEL', moves)
end
redis.call('HSET', moves, ARGV[1], string.format('%.0f', now + tonumber(ARGV[2])))
return 1
