-- expiry.set(K) shards name only life ms field value [field value ...] -> 1 or 0
--
-- Sets fields as put does, under a condition or once. An expired field counts as missing. The
-- first write is one that a full server refuses, so nothing is half stored.
--
-- Needs    lane, assign
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name: of the hash
-- ARGV[3]  only: 'new' if no field may exist, 'old' if all must, or ''
-- ARGV[4]  life: 'none' for no deadline, 'keep' to keep those of the fields, 'in' for one ms
--          from now, 'at' for one at ms
-- ARGV[5]  ms: milliseconds, or Unix milliseconds
-- ARGV     pairs of a field's place and a value, at most 1,000; no field twice
-- Reply    1 if the fields were set, else 0
-- Cost     O(log N) a field
-- Repeat   harmless: the lane keeps the reply
if answered then
  return 1
end
local only, life, ms = ARGV[3], ARGV[4], ARGV[5]
local deadline = (life == 'none' or life == 'keep') and math.huge
if (life == 'in' or life == 'at') and #ms < 16 and string.find(ms, '^%-?%d+$') then
  deadline = (life == 'in' and soon or 0) + ms
end
if not deadline or deadline >= 281474976710655 and deadline < math.huge or #ARGV < 7 or #ARGV % 2 == 0
  or only ~= '' and only ~= 'new' and only ~= 'old' then
  return redis.error_reply('ERR invalid arguments of a write')
end
local done = assign(6, only, life, deadline)
if done == true then
  answer('1')
end
return done == true and 1 or done or 0
