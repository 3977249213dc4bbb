-- expiry.hash_persist(K) shards name field [field ...] -> {code, ...}
--
-- Takes the deadlines of fields away. It begins with a write that a full server does
-- not refuse.
--
-- Needs    lane, hash_one
-- Touches  K
-- Without  h:ARGV[2]
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name: of the hash
-- ARGV     fields, at most 1,000
-- Reply    for each field 1 if it had a deadline, -1 if it had none, -2 if there is
--          no such field
-- Cost     O(log N) a field
-- Repeat   harmless: the answer is known by its lane
local codes = {}
if answered then
  for code in string.gmatch(answered, '%S+') do
    codes[#codes + 1] = tonumber(code)
  end
  return codes
end

local kept, seen = {}, {} -- seen: for a field that is named twice
for i, score in ipairs(redis.call('ZMSCORE', t, unpack(ARGV, 3))) do
  local field, has = ARGV[i + 2], time_of(score)
  if has <= now then
    codes[i] = -2
  elseif has == math.huge or seen[field] then
    codes[i] = -1
  else
    codes[i], seen[field] = 1, true
    kept[#kept + 1] = '+inf'
    kept[#kept + 1] = field
  end
end
if #kept > 0 then
  redis.call('HDEL', K, '') -- a first write that a full server does not refuse
  redis.call('ZADD', t, unpack(kept))
  settle(name, {}, 0, 10)
  answer(table.concat(codes, ' '))
end
return codes
