-- expiry.set(K) shards name only life ms field value [field value ...] -> created
--
-- Sets fields, all or none, and their deadline. An expired field counts as missing. A past
-- deadline removes the fields at once. The first write is one that a full server refuses,
-- so nothing is half stored. It removes as many expired fields as it sets, or ten.
--
-- Needs    lane, hash
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name: of the hash
-- ARGV[3]  only: 'new' if no field may exist, 'old' if all must, or ''
-- ARGV[4]  life: 'none' for no deadline, 'keep' to keep those of the fields, 'in' for one ms
--          from now, 'at' for one at ms
-- ARGV[5]  ms: milliseconds, or Unix milliseconds
-- ARGV     pairs of a field and a value, at most 1,000; no field twice
-- Reply    how many of the fields are new, -1 if none was set
-- Cost     O(log N) a field
-- Repeat   harmless: the lane keeps the reply
if answered then
  return tonumber(answered)
end
local only, life, ms, names, alive = ARGV[3], ARGV[4], ARGV[5], {}, 0
local deadline = math.huge
if life == 'in' or life == 'at' then
  deadline = string.find(ms, '^%-?%d+$') and (life == 'in' and soon or 0) + ms or deadline
end
if (life == 'in' or life == 'at') and deadline >= 281474976710655 or #ARGV < 7 or #ARGV % 2 == 0
  or life ~= 'in' and life ~= 'at' and life ~= 'none' and life ~= 'keep' or only ~= '' and only ~= 'new' and only ~= 'old' then
  return redis.error_reply('ERR invalid arguments of a write')
end
for i = 6, #ARGV, 2 do
  names[#names + 1] = ARGV[i]
end
local had, number = look(names), #names
for i = 1, number do
  if not had[i] and (only ~= '' or life == 'keep') then
    return redis.error_reply('BROKEN ' .. names[i] .. ' is no value')
  end
  had[i] = had[i] or math.huge
  alive = alive + (had[i] > now and 1 or 0)
end
if only == 'new' and alive > 0 or only == 'old' and alive < number then
  return -1
end

if deadline <= now then
  settle(name, names, alive, math.max(10, number), at)
else
  local head = head_of(deadline)
  for i, field in ipairs(names) do
    if life == 'keep' and had[i] > now then
      ARGV[2 * i + 5] = head_of(had[i]) .. ARGV[2 * i + 5]
    else
      list(field, deadline, had[i])
      ARGV[2 * i + 5] = head .. ARGV[2 * i + 5]
    end
  end
  store(ARGV, 6)
  settle(name, {}, 0, math.max(10, number), at)
end
count('set', number)
return tonumber(answer(tostring(number - alive)))
