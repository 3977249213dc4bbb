-- fairqueue.len(K) -> how many
--
-- Counts what a new reader could work on: messages that wait, that are due, and whose visibility
-- has ended.
--
-- Needs    record
-- Touches  delayed, dead, flight
-- Replica  may answer
-- KEYS[1]  K
-- ARGV     none
-- Reply    how many, 0 without a queue
-- Cost     O(log N)
-- Repeat   harmless: it only reads
if not exists then
  return 0
end
return n.written - n.removed - n.flying + n.cancelled + redis.call('ZCOUNT', prefix .. 'flight', '-inf', now) - redis.call('ZCARD', prefix .. 'dead') + 1 -
  redis.call('ZCOUNT', prefix .. 'delayed', '(' .. instant, '(inf')
