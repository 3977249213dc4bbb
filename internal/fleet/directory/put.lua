-- directory.put(K) before id name text... -> outcome
--
-- Stores values, if the first of them is still the one that the caller has read.
--
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  before: the id of the first value when it was read, '' if there was none
-- ARGV[2]  id: of the new values, 12 characters
-- ARGV[3]  name: of a value; more of them follow, each with its text
-- ARGV[4]  text: of that value
-- Reply    1 if the values are stored; 0 if the first one was changed
-- Cost     O(bytes)
-- Repeat   harmless: a first value with the text that is there already counts as stored
local stored = redis.call('HGET', K, ARGV[3])
if stored and string.sub(stored, 14) == ARGV[4] then
  return 1
end
if string.sub(stored or '', 1, 12) ~= ARGV[1] then
  return 0
end
local fields = {}
for i = 3, #ARGV, 2 do
  fields[i - 2], fields[i - 1] = ARGV[i], ARGV[2] .. ' ' .. ARGV[i + 1]
end
redis.call('HSET', K, unpack(fields))
return 1
