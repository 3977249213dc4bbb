-- shards.rest(K) ms -> 1
--
-- Notes in a namespace's record that nothing is due for a while, so that no other process
-- looks. It begins with a write that a full server does not refuse.
--
-- Needs    check, clock
-- Touches  K
-- KEYS[1]  K: the namespace's record
-- ARGV[1]  ms: for how many milliseconds from now
-- Reply    1
-- Cost     O(1)
-- Repeat   harmless: it only delays the job
if not string.find(ARGV[1], '^%d+$') or tonumber(ARGV[1]) > 1000 then
  return redis.error_reply('ERR a rest is a second at most')
elseif redis.call('HGET', K, 'version') == wire then
  redis.call('HDEL', K, '')
  redis.call('HSET', K, 'idle', string.format('%.0f', now + ARGV[1]))
end
return 1
