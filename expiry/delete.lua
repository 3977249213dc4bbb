-- expiry.delete(K) shards name field [field ...] -> number of fields
--
-- Removes fields. It begins with a write that a full server does not refuse.
--
-- Needs    lane, hash
-- Touches  K
-- Without  h:ARGV[2]
-- KEYS[1]  K
-- ARGV[1]  shards: how many the namespace has
-- ARGV[2]  name: of the hash
-- ARGV     fields, at most 1,000
-- Reply    how many of them were there, without the expired ones
-- Cost     O(log N) a field
-- Repeat   harmless: the answer is known by its lane
if answered then
  return tonumber(answered)
end
local gone, deleted, seen = {unpack(ARGV, 3)}, 0, {}
local had = look(gone)
for i, field in ipairs(gone) do
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
