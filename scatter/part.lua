-- scatter.part(K) base leaving fold -> 1 or 0
--
-- Forgets what a server has taken in a fold that has ended. No parcel of it is taken
-- any more.
--
-- KEYS[1]  K, which is empty
-- ARGV[1]  base: what the side keys begin with
-- ARGV[2]  leaving: the name of the server that left
-- ARGV[3]  fold: its number
-- Reply    1 if there was something to forget, else 0
-- Cost     O(1)
-- Repeat   harmless: a later fold is left alone
local applied = base .. ':applied:' .. ARGV[2]
local known = redis.call('HGET', applied, '')
if not known or tonumber(known) > tonumber(ARGV[3]) then
  return 0
end
redis.call('UNLINK', applied)
redis.call('HINCRBY', meta, 'parted', 1) -- a reader may have seen what was before
return 1
