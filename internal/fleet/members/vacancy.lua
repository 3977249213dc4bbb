-- fleet.vacancy(K) fleet own max_tags max_fill -> {outcome, ...}
--
-- Reports whether this partition takes another tag.
--
-- Needs    member, room
-- Touches  tags
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  max_tags: how many tags may be here, '0' for no limit
-- ARGV[4]  max_fill: the part of maxmemory that may be filled, in percent
-- Reply    {'room', ''}; {'full', number of tags}; {'stranger', identity} if this
--          is another server than expected
-- Cost     O(1)
-- Repeat   harmless: it only reads
if full(ARGV[3], ARGV[4]) then
  return {'full', redis.call('GET', K .. ':tags') or '0'}
end
return {'room', ''}
