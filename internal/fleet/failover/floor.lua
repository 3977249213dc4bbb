-- failover.floor(K) floor restored count -> floor
--
-- Raises the floor of a member that is being promoted, and writes a beat with that epoch. A call
-- that was held up until the member has a higher floor leaves that: masters refuse old maps by
-- it.
--
-- If its data may be of an earlier time, the hash restored says so until that was dealt
-- with: package restored has its fields.
--
-- Touches  floor, beat, restored, none
-- KEYS[1]  K
-- ARGV[1]  floor: an epoch above all that members know
-- ARGV[2]  restored: 'true' or 'false'
-- ARGV[3]  count: of the beat, one more than the newest that is known
-- Reply    the floor
-- Cost     O(1), and the size of an older hash
-- Repeat   harmless: it is that high
redis.call('DEL', K .. ':none') -- makes a full server accept it and what follows
local floor = redis.call('GET', K .. ':floor') or '0'
if tonumber(floor) < tonumber(ARGV[1]) then
  floor = ARGV[1]
  redis.call('SET', K .. ':floor', floor)
end
local epoch, count = string.match(redis.call('GET', K .. ':beat') or '', '^(%d+) (%d+)$')
epoch = math.max(tonumber(epoch or '0'), tonumber(ARGV[1]))
count = math.max(tonumber(count or '0'), tonumber(ARGV[3]))
redis.call('SET', K .. ':beat', string.format('%.0f %.0f', epoch, count))
if ARGV[2] == 'true' then
  redis.call('DEL', K .. ':restored')
  redis.call('HSET', K .. ':restored', 'epoch', ARGV[1])
end
return floor
