-- fairqueue.delete(K) -> how many
--
-- Removes a queue whole, whatever its keys hold.
--
-- Touches  messages, backlog, active, blocked, work, flight, delayed, deadlines, dead, deaths, readers, dedupe, dedupes,
--          weights, lanes:0, lanes:1
-- KEYS[1]  K
-- ARGV     none
-- Reply    how many keys there were
-- Cost     O(1) here, and O(N) in the background
-- Repeat   harmless: nothing is left
local n = redis.call('UNLINK', K)
for _, key in ipairs({'messages', 'backlog', 'active', 'blocked', 'work', 'flight', 'delayed', 'deadlines', 'dead', 'deaths',
  'readers', 'dedupe', 'dedupes', 'weights', 'lanes:0', 'lanes:1'}) do
  n = n + redis.call('UNLINK', prefix .. key)
end
redis.pcall('UNLINK', prefix .. 'wake')
return n
