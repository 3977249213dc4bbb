-- directory.snapped(K) partition ago saved archived failed -> 1
--
-- Stores the result of an attempt to take a snapshot of a partition. A field that is
-- older than the stored one changes nothing. An attempt without a failure removes an
-- older failure.
--
-- Touches  snapshots
-- KEYS[1]  K
-- ARGV[1]  partition: its number
-- ARGV[2]  ago: how long ago the attempt began, in milliseconds
-- ARGV[3]  saved: JSON, empty if nothing was saved
-- ARGV[4]  archived: JSON, empty if nothing was archived
-- ARGV[5]  failed: JSON, empty if nothing failed
-- Reply    1
-- Cost     O(1)
-- Repeat   harmless: it stores the same, a moment older or newer
local snapshots = prefix .. 'snapshots'
local time = redis.call('TIME')
local at = time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(ARGV[2])
local parts = {':saved', ':archived', ':failed'}
for i = 1, 3 do
  local field = ARGV[1] .. parts[i]
  local text = ARGV[2 + i]
  local stored = redis.call('HGET', snapshots, field)
  if not stored or tonumber(string.match(stored, '^%d+')) <= at then
    if text ~= '' then
      redis.call('HSET', snapshots, field, string.format('%.0f', at) .. ' ' .. text)
    elseif parts[i] == ':failed' then
      redis.call('HDEL', snapshots, field)
    end
  end
end
return 1
