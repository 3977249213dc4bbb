-- expiry.hash_set(K) name id only life ms field value [field value ...] -> created
--
-- Sets fields, all or none, and their deadline. What was there of an expired field
-- is nothing. A deadline that is past sets the fields and removes them at once.
--
-- The first write is one that a full server refuses, so nothing is half stored.
--
-- KEYS[1]  K
-- ARGV[1]  name: of the hash
-- ARGV[2]  id: of the request
-- ARGV[3]  only: 'new' if no field may be there, 'old' if all must be, or ''
-- ARGV[4]  life: 'none' for no deadline, 'keep' to keep the fields' own, 'in' for
--          one that is ms from now, 'at' for one at ms
-- ARGV[5]  ms: milliseconds, or Unix milliseconds
-- ARGV     pairs of a field and a value, at most 1,000; no field twice
-- ARGV     last, the number of the try
-- Reply    how many of the fields were not there before, -1 if none was set
-- Cost     O(log N) a field
-- Repeat   harmless: the answer is replayed by id
local id, only, life, last = ARGV[2], ARGV[3], ARGV[4], #ARGV - 1
local before = ARGV[#ARGV] ~= '1' and reqid_recall(id)
if before then
  return tonumber(before)
end

local fields, stale, alive, created = {}, {}, 0, 0
for i = 6, last, 2 do
  fields[#fields + 1] = ARGV[i]
end
for i, score in ipairs(redis.call('ZMSCORE', t, unpack(fields))) do
  if expired(score) then
    stale[#stale + 1] = fields[i]
    created = created + redis.call('HEXISTS', h, fields[i])
  elseif only ~= '' then
    alive = alive + redis.call('HEXISTS', h, fields[i])
  end
end
if only == 'new' and alive > 0 or only == 'old' and alive < #fields then
  return -1
end

local deadline = life == 'in' and soon + ARGV[5] or life == 'at' and tonumber(ARGV[5])
local changed = 0
if expired(deadline) then
  if #stale > 0 then
    redis.call('HDEL', h, unpack(stale))
  end
  created = #fields - redis.call('HDEL', h, unpack(fields))
  changed = redis.call('ZREM', t, unpack(fields))
else
  created = created + redis.call('HSET', h, unpack(ARGV, 6, last))
  if deadline then
    local text, scored = string.format('%.0f', deadline), {}
    for i, field in ipairs(fields) do
      scored[2 * i - 1], scored[2 * i] = text, field
    end
    redis.call('ZADD', t, unpack(scored))
    redis.call('ZADD', due, 'LT', text, name)
  elseif life == 'none' then
    changed = redis.call('ZREM', t, unpack(fields))
  elseif #stale > 0 then
    changed = redis.call('ZREM', t, unpack(stale))
  end
end
tidy(changed > 0)
count('set', #fields)
reqid_remember(id, tostring(created))
return created
