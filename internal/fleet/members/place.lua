-- fleet.place(K) fleet own tag epoch max_tags max_fill forced -> {outcome, ...}
--
-- Places a tag here, unless it has a record. If two clients place it at the same time,
-- one writes the record and both get it. A mark that the tag is being forgotten (-) is
-- removed: the tag is in use again. Other marks stay.
--
-- Forced is for a tag whose record in another partition names this one.
--
-- Needs    member, room
-- Touches  floor, tags, none, {*}
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  tag
-- ARGV[4]  epoch: of the caller's map
-- ARGV[5]  max_tags: how many tags may be here, '0' for no limit
-- ARGV[6]  max_fill: the part of maxmemory that may be filled, in percent
-- ARGV[7]  forced: '1' to place it whatever the map's age and the room
-- Reply    {'at', number of the partition that has it}; {'old', floor} if the map
--          is too old to place a tag by; {'full', number of tags}; {'stranger',
--          identity} if this is another server than expected
-- Cost     O(1)
-- Repeat   harmless: the second run finds the record
local record = K .. ':{' .. ARGV[3] .. '}'
local found = redis.call('GET', record)
local home = found and string.match(found, '^%d+')
if home then
  if string.sub(found, #home + 1, #home + 2) == ' -' then
    redis.call('DEL', K .. ':none') -- makes a full server accept it and what follows
    redis.call('SET', record, home)
  end
  return {'at', home}
end
if ARGV[7] ~= '1' then
  local floor = redis.call('GET', K .. ':floor') or '0'
  if tonumber(ARGV[4]) < tonumber(floor) then
    return {'old', floor}
  end
  if full(ARGV[5], ARGV[6]) then
    return {'full', redis.call('GET', K .. ':tags') or '0'}
  end
end
redis.call('SET', record, own)
redis.call('INCR', K .. ':tags')
return {'at', own}
