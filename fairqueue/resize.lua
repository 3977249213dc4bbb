-- fairqueue.resize(K) streams per group default -> {streams, per, span}
--
-- Changes how many streams writers use, and how many each tenant has; creates a
-- queue that is not there. Streams that are no longer used are read until they
-- are empty.
--
-- Needs    open
-- KEYS[1]  K
-- ARGV[1]  streams: from 1 to 1,024
-- ARGV[2]  per: how many a tenant has; 0 leaves that as it is
-- ARGV[3]  group: of a new queue
-- ARGV[4]  default: how many a tenant of a new queue has if per is 0
-- Reply    {streams, per, span} from now on
-- Cost     O(1)
-- Repeat   harmless: it states what is so
local wanted, wanted_per = tonumber(ARGV[1]), tonumber(ARGV[2])
if streams == 0 then
  per, group = tonumber(ARGV[4]), ARGV[3]
  redis.call('HSET', K, 'version', '1', 'group', group)
end
if wanted_per == 0 then
  wanted_per = per
end
per = math.min(wanted_per, wanted)
span = math.max(span, wanted)
redis.call('HSET', K, 'streams', wanted, 'per_tenant', per, 'span', span)
return {wanted, per, span}
