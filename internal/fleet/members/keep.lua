-- fleet.keep(K) fleet own epoch map -> {outcome, ...}
--
-- Keeps a copy of the fleet's map, unless the one that is here is as new. It is there
-- for the case that the directory loses its data.
--
-- Needs    member
-- Touches  map, none
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  epoch: of the map
-- ARGV[4]  map: its text, compressed
-- Reply    {'kept', epoch of the copy that is here now}; {'stranger', identity} if
--          this is another server than expected
-- Cost     O(1), and the bytes of the map
-- Repeat   harmless: the copy is there
local copy = K .. ':map'
local epoch = string.match(redis.call('GET', copy) or '', '^%d+') or '0'
if tonumber(ARGV[3]) > tonumber(epoch) then
  redis.call('DEL', K .. ':none') -- makes a full server accept it and what follows
  redis.call('SET', copy, ARGV[3] .. ' ' .. ARGV[4])
  epoch = ARGV[3]
end
return {'kept', epoch}
