-- tracker.advance(K) life passes cursor stamp next [id ...] -> {moved, passes}
--
-- Adds the identifiers with work behind a cursor, and moves the cursor. It changes nothing if
-- another slice moved the cursor meanwhile: that one read the same rows. The stamp is the time
-- before the rows were read. It never lowers a stamp: a producer may have added the identifier
-- meanwhile.
--
-- Needs    open, create
-- KEYS[1]  K
-- ARGV[1]  life: of tracker.place
-- ARGV[2]  passes: of tracker.place
-- ARGV[3]  cursor: of tracker.place
-- ARGV[4]  stamp: the clock of tracker.place
-- ARGV[5]  next: the cursor behind the last identifier read, at most 4,096 bytes, '' if it is
--          the last of the pass
-- ARGV     id: with work, each once, 1 to 512 bytes each, at most 1,000
-- Reply    {1 if the cursor was moved, else 0, complete passes}
-- Cost     O(log N) an identifier
-- Repeat   harmless: the second run finds the cursor moved
if not string.find(ARGV[4], '^%d+$') or #ARGV[4] > 15 or #ARGV[5] > 4096 then
  return redis.error_reply('ERR invalid arguments of a slice')
end
for i = 6, #ARGV do
  if ARGV[i] == '' or #ARGV[i] > 512 or i > 1005 then
    return redis.error_reply('ERR at most 1,000 identifiers of 1 to 512 bytes')
  end
end
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
