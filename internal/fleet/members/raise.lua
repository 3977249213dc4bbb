-- fleet.raise(K) fleet own floor -> {outcome, ...}
--
-- Raises the floor: clients whose map is older cannot place a tag here any more.
--
-- Needs    member
-- Touches  floor, none
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  floor: an epoch
-- Reply    {'floor', the floor that is in force, the higher one}; {'stranger',
--          identity} if this is another server than expected
-- Cost     O(1)
-- Repeat   harmless: the floor never goes down
local floor = redis.call('GET', K .. ':floor') or '0'
if tonumber(ARGV[3]) > tonumber(floor) then
  redis.call('DEL', K .. ':none') -- makes a full server accept it and what follows
  redis.call('SET', K .. ':floor', ARGV[3])
  floor = ARGV[3]
end
return {'floor', floor}
