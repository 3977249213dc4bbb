-- wake.notify(K) name ... -> number of names in the list
--
-- Wakes a process, which then checks these names. The list expires after ten seconds, and
-- keeps the last 4,096 names.
--
-- Touches  K
-- KEYS[1]  K: the list of the process
-- ARGV     the names, from 1 to 100
-- Reply    how many names there are now
-- Cost     O(1) for each name
-- Repeat   harmless: a process that is woken twice checks twice
redis.call('LTRIM', K, 0, 4094) -- a full server accepts it, and then the later commands
local size = redis.call('LPUSH', K, unpack(ARGV))
redis.call('PEXPIRE', K, 10000)
return size
