-- scatter.finish(K) base fold -> 'done' or 'parcels'
--
-- Ends the fold of a server when no parcel is on its way: the numbers of the parcels
-- are forgotten here, and nothing more is taken in this fold. The server stays closed.
--
-- KEYS[1]  K, which is empty
-- ARGV[1]  base: what the side keys begin with
-- ARGV[2]  fold: its number
-- Reply    'done', also if it has ended already; 'parcels' if there are some
-- Cost     O(1)
-- Repeat   harmless: the fold has ended
if redis.call('HGET', meta, 'fold') ~= ARGV[2] then
  return 'done'
end
if redis.call('HLEN', base .. ':out') > 0 then
  return 'parcels'
end
redis.call('UNLINK', base .. ':taken')
redis.call('HDEL', meta, 'fold', 'targets')
redis.call('HSET', meta, 'ended', ARGV[2]) -- a reader may have seen what was before
return 'done'
