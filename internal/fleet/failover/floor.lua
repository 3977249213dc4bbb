-- failover.floor(K) floor restored -> floor
--
-- Raises the floor of a member that is being promoted. A call that was held up until the
-- member has a higher one leaves that: masters refuse old maps by it.
--
-- If its data may be of an earlier time, the hash restored says so until that was dealt
-- with: package restored has its fields.
--
-- Touches  floor, restored, none
-- KEYS[1]  K
-- ARGV[1]  floor: an epoch above all that members know
-- ARGV[2]  restored: 'true' or 'false'
-- Reply    the floor
-- Cost     O(1), and the size of an older hash
-- Repeat   harmless: it is that high
redis.call('DEL', K .. ':none') -- makes a full server accept it and what follows
local floor = redis.call('GET', K .. ':floor') or '0'
if tonumber(floor) < tonumber(ARGV[1]) then
  floor = ARGV[1]
  redis.call('SET', K .. ':floor', floor)
end
if ARGV[2] == 'true' then
  redis.call('DEL', K .. ':restored')
  redis.call('HSET', K .. ':restored', 'epoch', ARGV[1])
end
return floor
