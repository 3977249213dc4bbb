-- audit.note(K) id entry max -> 1 or 0
--
-- Enters an action, the latest first, unless its id is there.
--
-- KEYS[1]  K: of one kind of action, mr:audit:{log}:ACTION
-- ARGV[1]  id: of the action, 1 to 64 bytes without a space
-- ARGV[2]  entry: a JSON object without a line end
-- ARGV[3]  max: how many entries stay
-- Reply    1 if it was entered, 0 if it was there
-- Cost     O(max)
-- Repeat   harmless: the second run finds the id
local start = ARGV[1] .. ' '
for _, line in ipairs(redis.call('LRANGE', K, 0, -1)) do
  if string.sub(line, 1, #start) == start then
    return 0
  end
end
local time = redis.call('TIME')
redis.call('LTRIM', K, 0, ARGV[3] - 2) -- a full server accepts it, and then the later commands
redis.call('LPUSH', K, start .. string.format('%d%06d', time[1], time[2]) .. ' ' .. ARGV[2])
return 1
