-- scatter.left(K) -> {now, flushes, until, forever}
--
-- Tells what is left of a group on this server: until when there are values that end,
-- and whether there are others. It knows what the library has written, and no more.
--
-- Needs    open, clock
-- KEYS[1]  K
-- ARGV     none
-- Reply    the server's time; how many flushes there were; when the last value ends that
--          has an end, 0 for none; 1 if values without an end were written, or 0. Times
--          are in Unix milliseconds
-- Cost     O(1)
-- Repeat   harmless: it only reads
local told = redis.call('HMGET', meta, 'flushes', 'until')
return {string.format('%.0f', now), told[1] or '0', told[2] or '0', known[2] or '0'}
