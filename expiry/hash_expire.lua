-- expiry.hash_expire(K) shards name only life ms field [field ...] -> {code, ...}
--
-- Sets the deadline of fields that are there. A condition is looked at first,
-- whatever the deadline; then one that is past removes the field. No deadline counts
-- as one that never comes.
--
-- It begins with a write that a full server does not refuse: a deadline is how
-- room is made.
--
-- Needs    lane, hash_one
-- Touches  K
-- Without  h:ARGV[2]
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name: of the hash
-- ARGV[3]  only: 'without' if the field may have no deadline, 'with' if it must,
--          'longer' or 'shorter' if it must move that way, or ''
-- ARGV[4]  life: 'in' for a deadline that is ms from now, 'at' for one at ms
-- ARGV[5]  ms: milliseconds, or Unix milliseconds
-- ARGV     fields, at most 1,000
-- Reply    for each field 1 if the deadline is set, 0 if the condition is not met,
--          2 if the field is removed since the deadline is past, -2 if there is no
--          such field
-- Cost     O(log N) a field
-- Repeat   harmless: the answer is known by its lane
local only, codes = ARGV[3], {}
if answered then
  for code in string.gmatch(answered, '%S+') do
    codes[#codes + 1] = tonumber(code)
  end
  return codes
end

local deadline = ARGV[4] == 'in' and soon + ARGV[5] or tonumber(ARGV[5])
local text = string.format('%.0f', deadline)
local known, set, gone = {}, {}, {} -- known: what this call made of a field, for one that is named twice
for i, score in ipairs(redis.call('ZMSCORE', t, unpack(ARGV, 6))) do
  local field = ARGV[i + 5]
  local has = known[field] or time_of(score)
  if has <= now then
    codes[i] = -2
  elseif only == 'without' and has < math.huge or only == 'with' and has == math.huge
    or only == 'longer' and deadline <= has or only == 'shorter' and deadline >= has then
    codes[i] = 0
  elseif deadline <= now then
    codes[i], known[field], gone[#gone + 1] = 2, 0, field
  else
    codes[i], known[field] = 1, deadline
    set[#set + 1] = text
    set[#set + 1] = field
  end
end

if #gone + #set > 0 then
  redis.call('HDEL', K, '') -- a first write that a full server does not refuse
  if #gone > 0 then
    count('deleted', #gone)
  else
    redis.call('ZADD', t, unpack(set))
  end
  settle(name, gone, #gone, 10)
  answer(table.concat(codes, ' '))
end
return codes
