-- expiry.expire(K) shards name only life ms field [field ...] -> {code, ...}
--
-- Sets or removes the deadline of fields. The condition comes first; then a past deadline
-- removes the field. No deadline counts as an infinite one. It stops after a mebibyte of
-- values. Its first write is one that a full server accepts: deadlines make room.
--
-- Needs    lane, hash
-- Touches  K
-- Without  h:ARGV[2]
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name: of the hash
-- ARGV[3]  only: 'without' if the field must have no deadline, 'with' if it must have one,
--          'longer' or 'shorter' if it must move that way, or ''
-- ARGV[4]  life: 'in' for a deadline ms from now, 'at' for one at ms, 'none' for none
-- ARGV[5]  ms: milliseconds, or Unix milliseconds
-- ARGV     places of fields, at most 1,000
-- Reply    for each field 1 if the deadline is set, 0 if the condition is not met, 2 if the
--          field is removed, -2 if there is no such field; if values are large, only for
--          the first fields, one at least
-- Cost     O(log N) a field, and O(length of the values)
-- Repeat   harmless: the lane keeps the reply
local only, life, codes, done = ARGV[3], ARGV[4], {}, false
if answered then
  for code in string.gmatch(answered, '%S+') do
    codes[#codes + 1] = tonumber(code)
  end
  return codes
end

local deadline = math.huge
if life == 'in' or life == 'at' then
  deadline = string.find(ARGV[5], '^%-?%d+$') and (life == 'in' and soon or 0) + ARGV[5] or deadline
end
if life ~= 'none' and deadline >= 281474976710655 or only ~= '' and only ~= 'without' and only ~= 'with' and only ~= 'longer' and only ~= 'shorter' then
  return redis.error_reply('ERR invalid arguments of a deadline')
end
local names, has, seen = {unpack(ARGV, 6)}, {}, {} -- has: what this call makes of a field, which may be named twice
local had, values = look(names)
for i, field in ipairs(names) do
  if not had[i] then
    return redis.error_reply('BROKEN ' .. field .. ' is no value')
  elseif had[i] > now and not values[i] then
    break
  end
  has[field] = has[field] or had[i]
  local code = deadline <= now and 2 or 1
  if has[field] <= now then
    code = -2
  elseif only == 'without' and has[field] < math.huge or only == 'with' and has[field] == math.huge
    or only == 'longer' and deadline <= has[field] or only == 'shorter' and deadline >= has[field] then
    code = 0
  else
    has[field], done = deadline, true
  end
  codes[i] = code
end

if done then
  redis.call('HDEL', K, '') -- a full server accepts this first write
  local items, gone = {}, {}
  for i in ipairs(codes) do
    local field = names[i]
    if not seen[field] and had[i] > now and has[field] <= now then
      gone[#gone + 1] = field
    elseif not seen[field] and has[field] ~= had[i] then
      list(field, has[field])
      items[#items + 1] = field
      items[#items + 1] = head_of(has[field]) .. string.sub(values[i], 9)
    end
    seen[field] = true
  end
  if #items > 0 then
    store(items, 1)
  end
  if #gone > 0 then
    count('deleted', #gone)
  end
  settle(name, gone, #gone, 10, at)
  answer(table.concat(codes, ' '))
end
return codes
