-- expiry.hash_persist(K) name id field [field ...] -> {code, ...}
--
-- Takes the deadlines of fields away.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- ARGV[2]  id: of the request
-- ARGV     fields, at most 1,000
-- ARGV     last, the number of the try
-- Reply    for each field 1 if it had a deadline, -1 if it had none, -2 if there is
--          no such field
-- Cost     O(log N) a field
-- Repeat   harmless: the answer is replayed by id
local id, codes = ARGV[2], {}
local before = ARGV[#ARGV] ~= '1' and reqid_recall(id)
if before then
  for code in string.gmatch(before, '%S+') do
    codes[#codes + 1] = tonumber(code)
  end
  return codes
end

local kept = {}
local seen = {} -- for a field that is named twice
for i, score in ipairs(redis.call('ZMSCORE', t, unpack(ARGV, 3, #ARGV - 1))) do
  local field = ARGV[i + 2]
  if expired(score) or redis.call('HEXISTS', h, field) == 0 then
    codes[i] = -2
  elseif not score or seen[field] then
    codes[i] = -1
  else
    codes[i], seen[field], kept[#kept + 1] = 1, true, field
  end
end
if #kept > 0 then
  redis.call('ZREM', t, unpack(kept))
  tidy(true)
  reqid_remember(id, table.concat(codes, ' '))
end
return codes
