-- rebalance.clear(K) fleet own tag expected {key} -> {outcome, record}
--
-- Deletes keys of a tag that is elsewhere.
--
-- Needs    guard
-- Touches  any key
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  tag
-- ARGV[4]  expected: its record, which says that it is elsewhere
-- ARGV[5]  key, and so on
-- Reply    {'done', expected}; {'other', the record that there is, '' for none};
--          {'stranger', identity} if this is another server than expected
-- Cost     O(1) for each key, of any size
-- Repeat   harmless: a key that is deleted already is left alone
if found ~= ARGV[4] then
  return {'other', found}
end
for i = 5, #ARGV do
  redis.call('UNLINK', ARGV[i])
end
return {'done', found}
