-- directory.moves(K) run life adopt -> outcome
--
-- Remembers that a run moves tags, so that somebody finishes it if it is cut off:
-- a run that has neither ended nor said for its life that it goes on. Who adopts
-- takes all such runs over, if no run goes on: those may be at the same tags.
--
-- Touches  moves
-- KEYS[1]  K
-- ARGV[1]  run: its name
-- ARGV[2]  life: for how long it goes on without saying so, in milliseconds from
--          now; 0 if it has ended
-- ARGV[3]  adopt: 1 to go on only as the one that takes others over
-- Reply    1 if the run goes on, or has ended; 0 if there was nothing to take over
-- Cost     O(runs), a few
-- Repeat   harmless: the run goes on
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
