-- fleet.forget(K) fleet own tag token -> {outcome, ...}
--
-- Removes the record of a tag if it still bears the mark, so that the tag is
-- nowhere.
--
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  tag
-- ARGV[4]  token: that of the mark
-- Reply    {'forgotten', ''}; {'kept', ''} if the tag is in use again; {'none', ''}
--          if there is no record; {'stranger', identity} if this is another server
--          than expected
-- Cost     O(1)
-- Repeat   harmless: the second run finds no record
local record = K .. ':{' .. ARGV[3] .. '}'
local found = redis.call('GET', record)
if not found then
  return {'none', ''}
end
local home = string.match(found, '^%d+')
if found ~= home .. ' ' .. ARGV[4] then
  return {'kept', ''}
end
redis.call('DEL', record)
if home == own then
  redis.call('DECR', K .. ':tags')
end
return {'forgotten', ''}
