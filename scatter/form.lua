-- fragment form: checks the form of a flush before its first write
--
-- Only ZADD knows which scores this server takes: it parses all of them before it looks at
-- its key, and with XX it creates none. The key none never exists.
--
-- Needs    open, lane
-- Touches  none
-- Gives    finite(text): whether all servers parse a text as the same number, and readers as a
--          float64
local function finite(text)
  return string.find(text, '^[-+.%d][-+.%deE]*$') and math.abs(tonumber(text) or math.huge) < math.huge
end

local place, before, scores, wrong = 2, 1, nil, #ARGV > 6001 and 'a flush has at most 1,000 values'
while ARGV[place] and not wrong do
  local kind, life, count = ARGV[place], ARGV[place + 1], ARGV[place + 2]
  local first, last = place + 3, place + 2 + (count and string.find(count, '^%d+$') and count or 0)
  local rank = kind == 'add' and 1 or kind == 'float' and 2 or kind == 'push' and 3
    or (kind == 'insert' or kind == 'score' or kind == 'best' or kind == 'least') and 4 or 0
  local scored = rank == 4 and kind ~= 'insert'
  local values = rank < 3 and last - first + 1 or last - first -- without a key that several have
  if rank < before then
    wrong = 'not a kind of value, or not in order: ' .. kind
  elseif last > #ARGV or values < (rank == 3 and 2 or 1) or (rank < 3 or scored) and values % 2 == 1 then
    wrong = 'the count of a run of ' .. kind
  else
    -- One text of all names is looked at: a function call for each name costs more.
    local names = rank < 3 and table.concat(ARGV, '\n', first, last) or ARGV[first]
    if names == '' or string.find(names, '/ick/{', 1, true)
      or string.find(names, 'mr:', 1, true) and string.find('\n' .. names, '\nmr:', 1, true) then
      wrong = 'the name of a value is empty, or that of a key of something else: ' .. string.sub(names, 1, 512)
    elseif rank == 3 and not (string.find(ARGV[first + 1], '^[1-9]%d*$') and tonumber(ARGV[first + 1]) <= 10000) then
      wrong = 'a list keeps 1 to 10,000 entries'
    elseif life ~= '' then
      local every, keep = string.match(life, '^(%d+)/(%d+)$')
      if every and (every % 1000 > 0 or every + 0 == 0 or keep + 0 == 0 or every + keep >= 2 ^ 52)
        or not every and not (string.find(life, '^@%d+$') and tonumber(string.sub(life, 2)) < 2 ^ 53) then
        wrong = 'not a life: ' .. life
      end
    end
  end
  if scored and not wrong then
    scores = scores or {'0', ''}
    for i = first + 2, last, 2 do
      if kind == 'score' and not finite(ARGV[i]) then
        wrong = 'not a finite number: ' .. ARGV[i]
      end
      scores[#scores + 1], scores[#scores + 2] = ARGV[i], ''
    end
  end
  place, before = last + 1, rank
end
if wrong then
  return redis.error_reply('ERR ' .. wrong)
elseif scores then
  redis.call('ZADD', prefix .. 'none', 'XX', unpack(scores))
end
