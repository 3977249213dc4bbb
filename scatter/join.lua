-- scatter.join(K) base leaving fold -> {outcome, fold}
--
-- Makes a server ready to take the parcels of a fold. What it remembers of earlier
-- ones, which have ended, is forgotten. Without this no parcel is taken, so that one
-- that comes after its fold has ended does no harm.
--
-- KEYS[1]  K, which is empty
-- ARGV[1]  base: what the side keys begin with
-- ARGV[2]  leaving: the name of the server that leaves
-- ARGV[3]  fold: its number
-- Reply    {'done', fold}; {'closed', ''} if this server leaves itself; {'later', the
--          number of a later fold that it knows of}
-- Cost     O(1)
-- Repeat   harmless: what was put down in this fold stays known
if closed then
  return {'closed', ''}
end
local applied = base .. ':applied:' .. ARGV[2]
local known = redis.call('HGET', applied, '')
if known and tonumber(known) > tonumber(ARGV[3]) then
  return {'later', known}
end
if known ~= ARGV[3] then
  redis.call('UNLINK', applied)
  redis.call('HSET', applied, '', ARGV[3])
end
return {'done', ARGV[3]}
