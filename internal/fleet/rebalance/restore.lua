-- rebalance.restore(K) fleet own tag before after {key ends value} -> {outcome, record}
--
-- Writes some keys of a tag that is about to come, and counts them in its claim, the
-- record of the tag: a claim includes the keys of all earlier ones.
--
-- Needs    guard
-- Touches  any key
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  tag
-- ARGV[4]  before: the claim that there is
-- ARGV[5]  after: the next one
-- ARGV[6]  key, and so on in threes
-- ARGV[7]  ends: when the key expires, in milliseconds, '0' for never
-- ARGV[8]  value, as DUMP has it
-- Reply    {'done', after}; {'other', the record that there is, '' for none};
--          {'stranger', identity} if this is another server than expected
-- Cost     that of RESTORE, for each key
-- Repeat   harmless: the claim says that it was done
if found == ARGV[5] then
  return {'done', found}
end
if found ~= ARGV[4] then
  return {'other', found}
end
for i = 6, #ARGV, 3 do
  redis.call('RESTORE', ARGV[i], ARGV[i + 1], ARGV[i + 2], 'REPLACE', 'ABSTTL')
end
redis.call('SET', record, ARGV[5])
return {'done', ARGV[5]}
