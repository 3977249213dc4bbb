-- tracker.stats(K) -> {...}
--
-- Reads the figures of a tracker.
--
-- Needs    open
-- Replica  may answer
-- KEYS[1]  K
-- ARGV     none
-- Reply    {the server's clock, complete passes, identifiers, the oldest stamp, when the last
--          complete pass began, when it ended, when the cursor was moved, identifiers added,
--          confirmed, removed}, times in Unix milliseconds, '' for missing ones
-- Cost     O(log N)
-- Repeat   harmless: it only reads
local size = redis.call('ZCARD', ids)
local oldest = redis.call('ZRANGE', ids, 0, 0, 'WITHSCORES')
local reply = {now, passes, marked and size - 1 or size, oldest[1] ~= '' and oldest[2] or ''}
local record = whole and redis.call('HMGET', K, 'full_started_ms', 'full_ended_ms', 'moved_ms', 'added', 'confirmed', 'removed') or {}
for i = 1, 6 do
  reply[i + 4] = record[i] or ''
end
return reply
