-- scatter.epochs(K) base {key} -> {epoch...}
--
-- Says in which epochs keys are.
--
-- KEYS[1]  K, which is empty
-- ARGV[1]  base: what the side keys begin with
-- ARGV[2]  key, and so on, at most 1,000
-- Reply    the epoch of each, '' if this server does not know
-- Cost     O(keys)
-- Repeat   harmless: it only reads
local all = {}
for i = 2, #ARGV do
  all[i - 1] = redis.call('HGET', base .. ':epochs', ARGV[i]) or ''
end
return all
