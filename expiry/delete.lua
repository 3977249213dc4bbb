-- expiry.delete(K) shards name field [field ...] -> number of fields
--
-- Removes fields. Its first write is one that a full server accepts.
--
-- Needs    lane, hash
-- Touches  K
-- Without  h:ARGV[2]
-- KEYS[1]  K
-- ARGV[1]  shards: of the namespace
-- ARGV[2]  name: of the hash
-- ARGV     places of fields, at most 1,000
-- Reply    how many existed, without expired ones
-- Cost     O(log N) a field
-- Repeat   harmless: the lane keeps the reply
if answered then
  return tonumber(answered)
end
local gone, deleted, seen = {unpack(ARGV, 3)}, 0, {}
local had = look(gone)
for i, field in ipairs(gone) do
  if field == '' then
    return redis.error_reply('BROKEN a field has no place')
  end
  if not seen[field] and (had[i] or math.huge) > now then
    deleted = deleted + 1
  end
  seen[field] = true
end
settle(name, gone, deleted, 10, at)
if deleted > 0 then
  count('deleted', deleted)
  answer(tostring(deleted))
end
return deleted
