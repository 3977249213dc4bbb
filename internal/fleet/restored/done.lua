-- restored.done(K) epoch marked lost {step} -> outcome
--
-- Stores that steps are done, and how many tags they found.
--
-- Touches  restored, none
-- KEYS[1]  K
-- ARGV[1]  epoch: of the restoration
-- ARGV[2]  marked: how many tags were marked
-- ARGV[3]  lost: how many of them have lost all that they had here
-- ARGV[4]  step, and so on
-- Reply    1; 0 if the partition was restored again, and nothing is stored
-- Cost     O(steps)
-- Repeat   counts the tags twice, for people only
local restored = K .. ':restored'
if redis.call('HGET', restored, 'epoch') ~= ARGV[1] then
  return 0
end
redis.call('DEL', K .. ':none') -- makes a full server accept it and what follows
redis.call('HINCRBY', restored, 'marked', ARGV[2])
redis.call('HINCRBY', restored, 'lost', ARGV[3])
for i = 4, #ARGV do
  redis.call('HSET', restored, ARGV[i], '1')
end
return 1
