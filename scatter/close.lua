-- scatter.close(K) base targets {server} -> {outcome, fold, targets}
--
-- Closes a server to sessions, because it is to leave, and begins a fold, or goes on
-- with the one that is under way. A fold has a number that grows, and a list of the
-- servers that take what is here, which does not change until it ends: the parcels of
-- a key all go to the same one.
--
-- A server that takes what another one leaves cannot leave itself before that has
-- ended. Nothing else here is refused by a full server.
--
-- KEYS[1]  K, which is empty
-- ARGV[1]  base: what the side keys begin with
-- ARGV[2]  targets: the names of the servers that take what is here, each followed by
--          a line feed; '' to see whether there is a list
-- ARGV[3]  server, and so on: the name of each other server of the group
-- Reply    {'done', number of the fold, the list there is by now}; {'target', name of
--          a server that leaves, and to which this one is a target, ''}
-- Cost     O(servers)
-- Repeat   harmless: the second run finds what the first has begun
for i = 3, #ARGV do
  if redis.call('EXISTS', base .. ':applied:' .. ARGV[i]) == 1 then
    return {'target', ARGV[i], ''}
  end
end
local under_way = redis.call('HMGET', meta, 'fold', 'targets')
local clock = redis.call('TIME')
local fold = under_way[1] or string.format('%.0f', clock[1] * 1000000 + clock[2])
local targets = under_way[2] or ARGV[2]
redis.call('HDEL', meta, '') -- a full server does not refuse it
redis.call('HSET', meta, 'version', '1', 'closed', '1', 'fold', fold)
if targets ~= '' then
  redis.call('HSET', meta, 'targets', targets)
end
return {'done', fold, targets}
