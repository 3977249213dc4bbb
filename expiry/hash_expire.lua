-- expiry.hash_expire(K) name id only life ms field [field ...] -> {code, ...}
--
-- Sets the deadline of fields that are there. A condition is looked at first,
-- whatever the deadline; then one that is past removes the field. No deadline counts
-- as one that never comes.
--
-- It begins with a write that a full server does not refuse: a deadline is how
-- room is made.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- ARGV[2]  id: of the request
-- ARGV[3]  only: 'without' if the field may have no deadline, 'with' if it must,
--          'longer' or 'shorter' if it must move that way, or ''
-- ARGV[4]  life: 'in' for a deadline that is ms from now, 'at' for one at ms
-- ARGV[5]  ms: milliseconds, or Unix milliseconds
-- ARGV     fields, at most 1,000
-- ARGV     last, the number of the try
-- Reply    for each field 1 if the deadline is set, 0 if the condition is not met,
--          2 if the field is removed since the deadline is past, -2 if there is no
--          such field
-- Cost     O(log N) a field
-- Repeat   harmless: the answer is replayed by id
local id, only, codes = ARGV[2], ARGV[3], {}
local before = ARGV[#ARGV] ~= '1' and reqid_recall(id)
if before then
  for code in string.gmatch(before, '%S+') do
    codes[#codes + 1] = tonumber(code)
  end
  return codes
end

local deadline = ARGV[4] == 'in' and soon + ARGV[5] or tonumber(ARGV[5])
local text = string.format('%.0f', deadline)
local scores = redis.call('ZMSCORE', t, unpack(ARGV, 6, #ARGV - 1))
local known, set, gone = {}, {}, {} -- known: what this call made of a field, for one that is named twice
for i, score in ipairs(scores) do
  local field = ARGV[i + 5]
  local has = tonumber(known[field] or score or nil)
  if known[field] == false or expired(has) or redis.call('HEXISTS', h, field) == 0 then
    codes[i] = -2
  elseif only == 'without' and has or only == 'with' and not has
    or only == 'longer' and deadline <= (has or math.huge) or only == 'shorter' and deadline >= (has or math.huge) then
    codes[i] = 0
  elseif expired(deadline) then
    codes[i], known[field], gone[#gone + 1] = 2, false, field
  else
    codes[i], known[field] = 1, deadline
    set[#set + 1] = text
    set[#set + 1] = field
  end
end

if #gone + #set > 0 then
  redis.call('HDEL', K, '')
  if #gone > 0 then
    redis.call('HDEL', h, unpack(gone))
    redis.call('ZREM', t, unpack(gone))
    count('deleted', #gone)
  else
    redis.call('ZADD', t, unpack(set))
    redis.call('ZADD', due, 'LT', text, name)
  end
  tidy(#gone > 0)
  reqid_remember(id, table.concat(codes, ' '))
end
return codes
