-- scatter.reset(K) base epoch {key} -> {fold, key...}
--
-- Begins an epoch of some keys: what they had is put aside, under a name of the epoch,
-- and they count from nothing. A key that is in that epoch already, or in a later one,
-- is left alone. So is one with a parcel on its way to another server: the parcel is
-- of the epoch that the key is in, and has to arrive first.
--
-- The first write is one that a full server does not refuse.
--
-- KEYS[1]  K, which is empty
-- ARGV[1]  base: what the side keys begin with
-- ARGV[2]  epoch: a decimal above 0
-- ARGV[3]  key, and so on, at most 1,000
-- Reply    the fold that is under way here, '' for none, and the keys with a parcel
--          on its way
-- Cost     O(keys), whatever they hold
-- Repeat   harmless: the keys are in the epoch
local waiting = {redis.call('HGET', meta, 'fold') or ''}
local epoch = ARGV[2]
redis.call('HDEL', base .. ':epochs', '')
for i = 3, #ARGV do
  local key = ARGV[i]
  if earlier(epoch_of(key), epoch) then
    if redis.call('HEXISTS', base .. ':out', key) == 1 then
      waiting[#waiting + 1] = key
    else
      begin_epoch(key, epoch)
    end
  end
end
return waiting
