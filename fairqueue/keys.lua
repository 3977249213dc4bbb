-- fragment keys: all keys of a queue
--
-- They exist from the first write to the deletion: each has a placeholder, a member, an element or a field with an empty
-- name. In a slot that moves, a missing key cannot be told from one on the other node.
--
-- Needs    nothing
-- Touches  K, hot, backlog, active, blocked, young, flight, delayed, deadlines, dead, deaths, readers, dedupe, dedupes,
--          limits, asleep, buckets, schedules, ticks, lanes
-- Beside   wake, keyed:0, keyed:1
-- Gives    sorted_sets, hashes: the names of all but K and the list young, with spaces between
--          remove_keys() -> how many there were: removes a queue
local sorted_sets = 'active backlog blocked flight delayed deadlines dead dedupes asleep buckets ticks lanes'
local hashes = 'hot deaths readers dedupe limits schedules'

local function remove_keys()
  local removed = redis.call('UNLINK', K, prefix .. 'young')
  for name in string.gmatch(sorted_sets .. ' ' .. hashes, '%a+') do
    removed = removed + redis.call('UNLINK', prefix .. name)
  end
  for name in string.gmatch('wake keyed:0 keyed:1', '%S+') do
    redis.pcall('UNLINK', prefix .. name)
  end
  return removed
end
