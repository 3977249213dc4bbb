-- fairqueue.weigh(K) flow weight -> 1 or 0
--
-- Changes the weight of a flow, from its next head on.
--
-- Needs    record
-- Touches  weights
-- KEYS[1]  K
-- ARGV[1]  flow
-- ARGV[2]  weight: a number; '' for 1
-- Reply    0 without a queue
-- Cost     O(1)
-- Repeat   harmless: it sets the same again
if not exists then
  return 0
end
redis.call('HDEL', prefix .. 'weights', ARGV[1])
if ARGV[2] ~= '' then
  redis.call('HSET', prefix .. 'weights', ARGV[1], ARGV[2])
  redis.call('HSET', K, 'weights', '1')
end
return 1
