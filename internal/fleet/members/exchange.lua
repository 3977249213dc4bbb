-- fleet.exchange(K) fleet own tag before after -> {outcome, record}
--
-- Replaces the record of a tag if it is still the one that the caller saw, and counts
-- the tags that are here.
--
-- Needs    member
-- Touches  tags, none, {*}
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  tag
-- ARGV[4]  before: the record to replace, '' for none
-- ARGV[5]  after: the new one, '' for none
-- Reply    {'exchanged', after}; {'other', the record that there is, '' for none};
--          {'stranger', identity} if this is another server than expected
-- Cost     O(1)
-- Repeat   harmless: a record that equals after already counts as exchanged
local record = K .. ':{' .. ARGV[3] .. '}'
local found = redis.call('GET', record) or ''
if found == ARGV[5] then
  return {'exchanged', found}
end
if found ~= ARGV[4] then
  return {'other', found}
end
local before = string.match(found, '^%d+') == own
local after = string.match(ARGV[5], '^%d+') == own
redis.call('DEL', K .. ':none') -- makes a full server accept it and what follows
if ARGV[5] == '' then
  redis.call('DEL', record)
else
  redis.call('SET', record, ARGV[5])
end
if after and not before then
  redis.call('INCR', K .. ':tags')
elseif before and not after then
  redis.call('DECR', K .. ':tags')
end
return {'exchanged', ARGV[5]}
