-- expiry.hash_set(K) shards name only life ms field value [field value ...] -> created
--
-- Sets fields, all or none, and their deadline. What was there of an expired field
-- is nothing. A deadline that is past sets the fields and removes them at once.
--
-- The first write is one that a full server refuses, so nothing is half stored. As many
-- expired fields as are set go on the way, or ten.
--
-- Needs    lane, hash_one
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name: of the hash
-- ARGV[3]  only: 'new' if no field may be there, 'old' if all must be, or ''
-- ARGV[4]  life: 'none' for no deadline, 'keep' to keep the fields' own, 'in' for
--          one that is ms from now, 'at' for one at ms
-- ARGV[5]  ms: milliseconds, or Unix milliseconds
-- ARGV     pairs of a field and a value, at most 1,000; no field twice
-- Reply    how many of the fields were not there before, -1 if none was set
-- Cost     O(log N) a field
-- Repeat   harmless: the answer is known by its lane
if answered then
  return tonumber(answered)
end
local only, life, fields, alive = ARGV[3], ARGV[4], {}, 0
for i = 6, #ARGV, 2 do
  fields[#fields + 1] = ARGV[i]
end
local scores = redis.call('ZMSCORE', t, unpack(fields))
for i, score in ipairs(scores) do
  if time_of(score) > now then
    alive = alive + 1
  else
    scores[i] = '+inf'
  end
end
if only == 'new' and alive > 0 or only == 'old' and alive < #fields then
  return -1
end

local deadline = life == 'in' and soon + ARGV[5] or life == 'at' and tonumber(ARGV[5]) or math.huge
local number, most = #fields, math.max(10, #fields)
if deadline <= now then
  settle(name, fields, alive, most)
else
  redis.call('HSET', h, unpack(ARGV, 6))
  local text, scored = deadline < math.huge and string.format('%.0f', deadline) or '+inf', {}
  for i, field in ipairs(fields) do
    scored[2 * i - 1], scored[2 * i] = life == 'keep' and scores[i] or text, field
  end
  redis.call('ZADD', t, unpack(scored))
  settle(name, {}, 0, most)
end
count('set', number)
return tonumber(answer(tostring(number - alive)))
