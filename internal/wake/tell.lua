-- wake.tell(K) name ... -> number of names that lie there
--
-- Tells a process that what it waits for may be there. What nobody takes leaves after ten
-- seconds, and of more than 4,096 names those that came last stay.
--
-- Touches  K
-- KEYS[1]  K: the list of the process
-- ARGV     the names, from 1 to 100
-- Reply    how many names lie there now
-- Cost     O(1) for each name
-- Repeat   harmless: a process that is told twice looks twice
redis.call('LTRIM', K, 0, 4094) -- a full server does not refuse it, nor then what follows
local lie = redis.call('LPUSH', K, unpack(ARGV))
redis.call('PEXPIRE', K, 10000)
return lie
