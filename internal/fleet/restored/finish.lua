-- restored.finish(K) epoch -> outcome
--
-- Ends a restoration: all steps are done.
--
-- Touches  restored
-- KEYS[1]  K
-- ARGV[1]  epoch: of the restoration
-- Reply    1; 0 if the partition was restored again
-- Cost     O(steps)
-- Repeat   harmless: nothing is left to be ended
local restored = K .. ':restored'
if redis.call('HGET', restored, 'epoch') ~= ARGV[1] then
  return 0
end
redis.call('DEL', restored)
return 1
