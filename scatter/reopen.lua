-- scatter.reopen(K) base -> 'done' or 'folding'
--
-- Opens a server again that was closed to sessions.
--
-- KEYS[1]  K, which is empty
-- ARGV[1]  base: what the side keys begin with
-- Reply    'done'; 'folding' while a fold is under way
-- Cost     O(1)
-- Repeat   harmless: it is open
if redis.call('HEXISTS', meta, 'fold') == 1 then
  return 'folding'
end
redis.call('HDEL', meta, 'closed')
return 'done'
