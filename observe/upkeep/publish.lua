-- upkeep.publish(K) process life {job worked idle error timeout panic busy breaker rounds ago} ... -> {number, ...}
--
-- Adds the counts of one process to the totals: all of them, or nothing if the server is
-- full, which refuses the first write. A new job is left out if there are 100.
--
-- Needs    open, lane
-- Makes    K hash version 1, processes zset
-- KEYS[1]  K
-- ARGV[1]  process: a unique name
-- ARGV[2]  life: for how many milliseconds from now it counts as running; 0 if it
--          ends
-- ARGV     for each of at most 100 jobs: its name, at most 512 bytes; by how much
--          each of its eight counts has grown; how many milliseconds ago it last
--          worked, or '' if it has not since
-- Reply    which of the jobs were left out, by their number in the call from 1 on
-- Cost     O(jobs), and O(log N) of N processes
-- Repeat   harmless: the answer is replayed
local left = {}
if answered then
  for number in string.gmatch(answered, '%d+') do
    left[#left + 1] = tonumber(number)
  end
  return left
end
redis.call('ZCARD', processes) -- fails here if it is something else
local sound = ARGV[1] ~= '' and #ARGV[1] <= 512 and #ARGV[2] <= 13 and string.find(ARGV[2], '^%d+$')
sound = sound and #ARGV % 10 == 2 and #ARGV <= 1002
for at = 3, sound and #ARGV or 0, 10 do
  local numbers = table.concat(ARGV, ' ', at + 1, at + 9)
  sound = sound and #ARGV[at] <= 512 and #numbers <= 140
    and string.find(numbers, '^' .. string.rep('%d+ ', 8) .. '%d*$')
end
if not sound then
  return redis.error_reply('ERR invalid arguments of a flush')
end

local grown, count = {'version', '1'}, version and redis.call('HLEN', K) - 1 or 0
for at = 3, #ARGV, 10 do
  local field = 'job:' .. ARGV[at]
  local stored = redis.call('HGET', K, field)
  if stored or count < 100 then
    local numbers = {}
    for number in string.gmatch(stored or '0 0 0 0 0 0 0 0 0', '%d+') do
      numbers[#numbers + 1] = tonumber(number)
    end
    if #numbers ~= 9 then
      return redis.error_reply('BROKEN ' .. field)
    end
    for j = 1, 8 do
      numbers[j] = string.format('%.0f', numbers[j] + ARGV[at + j])
    end
    local ago = tonumber(ARGV[at + 9])
    numbers[9] = string.format('%.0f', ago and math.max(numbers[9], now - ago) or numbers[9])
    grown[#grown + 1] = field
    grown[#grown + 1] = table.concat(numbers, ' ')
    count = stored and count or count + 1
  else
    left[#left + 1] = (at + 7) / 10
  end
end

redis.call('HSET', K, unpack(grown))
redis.call('ZREMRANGEBYSCORE', processes, '-inf', string.format('%.0f', now))
redis.call('ZREM', processes, ARGV[1])
redis.call('ZADD', processes, '+inf', '') -- so that the key never goes
if ARGV[2] ~= '0' then
  redis.call('ZADD', processes, string.format('%.0f', now + ARGV[2]), ARGV[1])
  redis.call('ZREMRANGEBYRANK', processes, 0, -10002)
end
answer(table.concat(left, ' '))
return left
