-- scatter.date(K) base {key epoch} -> 'done'
--
-- Writes down in which epochs keys are of which this server does not know that: it is
-- new in the group, and what it has of them is of the epoch of all others.
--
-- The first write is one that a full server does not refuse.
--
-- KEYS[1]  K, which is empty
-- ARGV[1]  base: what the side keys begin with
-- ARGV[2]  key
-- ARGV[3]  epoch that it is in, and so on in twos, at most 1,000
-- Reply    'done'
-- Cost     O(keys)
-- Repeat   harmless: what is known stays
redis.call('HDEL', base .. ':epochs', '')
for i = 2, #ARGV, 2 do
  redis.call('HSETNX', base .. ':epochs', ARGV[i], ARGV[i + 1])
end
return 'done'
