-- audit.note(K) id entry max age [action ...] -> 1 or 0
--
-- Enters an action, the latest first, unless its id is there. Then it removes up to 100 old
-- entries of all kinds, so that a kind without new actions does not keep its old ones.
--
-- KEYS[1]  K: of one kind of action, mr:audit:{log}:ACTION
-- ARGV[1]  id: of the action, 1 to 64 bytes without a space
-- ARGV[2]  entry: a JSON object without a line end
-- ARGV[3]  max: how many entries stay
-- ARGV[4]  age: for how many seconds
-- ARGV[5]  action, ...: the kinds whose old entries go, as in their keys
-- Reply    1 if it was entered, 0 if it was there
-- Cost     O(max + actions)
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

local first, left = time[1] - ARGV[4], 100
local log = string.gsub(K, '[^:]*$', '')
for i = 5, #ARGV do
  local key = log .. ARGV[i]
  while left > 0 do
    local line = redis.pcall('LINDEX', key, -1) -- of a foreign type it is an error
    local second = type(line) == 'string' and tonumber(string.match(line, '^%S+ (%d+)%d%d%d%d%d%d '))
    if not second or second >= first then
      break
    end
    redis.pcall('LTRIM', key, 0, -2)
    left = left - 1
  end
end
return 1
