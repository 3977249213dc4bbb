-- tracker.advance(K) life passes cursor stamp next [id ...] -> {moved, passes}
--
-- Adds the identifiers with work in the rows behind a cursor, and moves the cursor. If
-- somebody else moved it meanwhile, nothing is changed: who moved it saw the same
-- rows. The stamp is the time before the rows were read, so that it claims no
-- more than was seen, and it never lowers one: the stamp of a producer that added
-- the identifier while the rows were read is the later word.
--
-- Needs    open, create
-- KEYS[1]  K
-- ARGV[1]  life: as tracker.place told it; another one has seen other rows
-- ARGV[2]  passes: as tracker.place told it
-- ARGV[3]  cursor: as tracker.place told it
-- ARGV[4]  stamp: the clock that tracker.place told, before the rows were read
-- ARGV[5]  next: the cursor of the last row that was looked at, with work or not; '' when
--          there is none behind it, and so the pass is over
-- ARGV     id: of the rows with work, each once, at most 1,000
-- Reply    {1 when the cursor was moved and 0 when not, full passes}
-- Cost     O(log N) an identifier
-- Repeat   harmless: the second run finds the cursor moved
if life ~= ARGV[1] or passes ~= ARGV[2] or cursor ~= ARGV[3] then
  return {0, passes}
end
local stamp, after = ARGV[4], ARGV[5]
local new = 0
for i = 6, #ARGV do
  new = new + redis.call('ZADD', ids, 'GT', stamp, ARGV[i])
end
make_whole()
started = cursor ~= '' and started or stamp
if after == '' then
  passes = string.format('%.0f', passes + 1)
  redis.call('HSET', K, 'full_started_ms', started, 'full_ended_ms', now)
end
redis.call('HSET', K, 'passes', passes, 'cursor', after, 'pass_started_ms', started, 'moved_ms', now)
if new > 0 then
  redis.call('HINCRBY', K, 'added', new)
end
return {1, passes}
