-- fairqueue.delete(K) span -> number of keys
--
-- Removes a queue whole: what waits, what is in flight, what is dead.
--
-- Touches  K, waits, due, delayed, later, places, dead, wake, s:*, dedupe, dedupes,
--          lanes:0, lanes:1, keyed:0, keyed:1
-- KEYS[1]  K
-- ARGV[1]  span: up to which stream to look at least, for a queue whose own
--          record is gone
-- Reply    how many keys there were
-- Cost     O(streams), at most 1,024; the memory is freed in the background
-- Repeat   harmless: the second run finds nothing and counts 0
local known = redis.pcall('HGET', K, 'span') -- whatever lies there
local span = math.max(type(known) == 'string' and tonumber(known) or 0, tonumber(ARGV[1]))
local deleted = redis.call('UNLINK', K, K .. ':waits', K .. ':due', K .. ':delayed', K .. ':later',
  K .. ':places', K .. ':dead', K .. ':dedupe', K .. ':dedupes', K .. ':wake',
  K .. ':lanes:0', K .. ':lanes:1', K .. ':keyed:0', K .. ':keyed:1')
for i = 0, span - 1 do
  deleted = deleted + redis.call('UNLINK', K .. ':s:' .. i)
end
return deleted
