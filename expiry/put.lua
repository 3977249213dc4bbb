-- expiry.put(K) shards name life ms field value [field value ...] -> 1
--
-- Sets fields, all or none, and their deadline. A past deadline removes the fields at once. The
-- first write is one that a full server refuses, so nothing is half stored. It removes as many
-- expired fields as it sets, or ten.
--
-- Needs    quick, assign
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name: of the hash
-- ARGV[3]  life: 'none' for no deadline, 'in' for one ms from now, 'at' for one at ms
-- ARGV[4]  ms: milliseconds, or Unix milliseconds
-- ARGV     pairs of a field's place and a value, at most 1,000; no field twice
-- Reply    1
-- Cost     O(log N) a field: four commands for a field of a hash that exists
-- Repeat   harmless: it sets the same again, and a deadline ms from now is that much later
local done = assign(5, '', ARGV[3], deadline)
return done == true and 1 or done
