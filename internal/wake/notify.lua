-- wake.notify(K) -> 1 or 0
--
-- Wakes one who waits, or the next one to wait. A token that nobody takes leaves after
-- ten seconds.
--
-- Touches  K
-- KEYS[1]  K: the wake key
-- ARGV     none
-- Reply    1 when a token was pushed, 0 when one lies there already
-- Cost     O(1)
-- Repeat   harmless: one token is as good as two
if redis.call('EXISTS', K) == 1 then
  return 0
end
redis.call('DEL', K) -- a full server does not refuse it, nor then what follows
redis.call('LPUSH', K, '1')
redis.call('PEXPIRE', K, 10000)
return 1
