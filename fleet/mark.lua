-- fleet.mark(K) fleet own tag token -> {outcome, ...}
--
-- Marks a tag as about to be forgotten. It stays where it is until it is: who
-- writes for it and finds the mark takes it off.
--
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  tag
-- ARGV[4]  token: of the one who forgets it, letters and digits
-- Reply    {'at', number of the partition that has it}; {'none', ''} if there is
--          no record; {'stranger', identity} if this is another server than
--          expected
-- Cost     O(1)
-- Repeat   harmless: the mark is the same
local record = K .. ':{' .. ARGV[3] .. '}'
local found = redis.call('GET', record)
if not found then
  return {'none', ''}
end
local home = string.match(found, '^%d+')
redis.call('DEL', K .. ':none') -- a full server does not refuse it, nor then what follows
redis.call('SET', record, home .. ' ' .. ARGV[4])
return {'at', home}
