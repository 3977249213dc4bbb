-- rebalance.restored(K) fleet own tag before after -> {outcome, record}
--
-- Has the record of a tag, that came back with an old copy of the data, say that the
-- tag was moved away since.
--
-- Needs    guard
-- Touches  tags, none, {*}
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  tag
-- ARGV[4]  before: its record, which says that it is here
-- ARGV[5]  after: its record, which says that it is elsewhere
-- Reply    {'done', after}; {'other', the record that there is, '' for none};
--          {'stranger', identity} if this is another server than expected
-- Cost     O(1)
-- Repeat   harmless: the second run finds another record
if found ~= ARGV[4] then
  return {'other', found}
end
redis.call('DEL', prefix .. 'none') -- a full server does not refuse it, nor then what follows
redis.call('SET', record, ARGV[5])
redis.call('DECR', prefix .. 'tags')
return {'done', ARGV[5]}
