-- directory.hold(K) holder life -> holder
--
-- Gives a name to a holder, unless another one has it. K is the key of that name.
--
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  holder: a unique name; '' only asks
-- ARGV[2]  life: how long it has the name, in milliseconds; 0 to give it up
-- Reply    the holder from now on, '' for none
-- Cost     O(1)
-- Repeat   harmless: the holder has it for a new life
local stored, left = redis.call('GET', K), redis.call('PTTL', K)
local life, holder = string.match(stored or '', '^(%d+) (.*)$')
if not life or left < 0 or left > tonumber(life) then
  holder = '' -- or the clock was ahead when it was stored
end
if ARGV[1] == '' or holder ~= '' and holder ~= ARGV[1] then
  return holder
end
if ARGV[2] == '0' then
  redis.call('DEL', K)
  return ''
end
redis.call('SET', K, ARGV[2] .. ' ' .. ARGV[1], 'PX', ARGV[2])
return ARGV[1]
