-- scatter.left(K) -> {now, flushes, until, forever}
--
-- Returns the data that a group has left on this server, as far as the library wrote it: until when
-- there are values with an end, and whether there are others.
--
-- Needs    open, clock
-- KEYS[1]  K
-- ARGV     none
-- Reply    the server's time; how many flushes there were; when the last value with an end
--          ends, 0 for none; 1 if values without an end were written, or 0. Times are in Unix
--          milliseconds
-- Cost     O(1)
-- Repeat   harmless: it only reads
local stored = redis.call('HMGET', meta, 'flushes', 'until')
return {string.format('%.0f', now), stored[1] or '0', stored[2] or '0', known[2] or '0'}
