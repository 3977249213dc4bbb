-- fleet.forward(K) fleet own tag epoch target -> {outcome, ...}
--
-- Forwards a tag that this full partition owns: the record here names another partition.
-- A full server takes the record, which is small.
--
-- Needs    member
-- Touches  floor, none, {*}
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  tag
-- ARGV[4]  epoch: of the caller's map
-- ARGV[5]  target: the number of the partition that has room
-- Reply    {'at', number of the partition that has it}: another one if there was a
--          record already; {'old', floor} if the map is too old to place a
--          tag by; {'stranger', identity} if this is another server than expected
-- Cost     O(1)
-- Repeat   harmless: the second run finds the record
local record = K .. ':{' .. ARGV[3] .. '}'
local found = redis.call('GET', record)
if found then
  return {'at', string.match(found, '^%d+')}
end
local floor = redis.call('GET', K .. ':floor') or '0'
if tonumber(ARGV[4]) < tonumber(floor) then
  return {'old', floor}
end
redis.call('DEL', K .. ':none') -- makes a full server accept it and what follows
redis.call('SET', record, ARGV[5])
return {'at', ARGV[5]}
