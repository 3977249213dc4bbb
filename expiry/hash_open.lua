-- fragment hash_open: the one hash that a call reads
--
-- Reads ask for no version: the namespace's record was checked when it was opened.
--
-- Needs  nothing
-- Gives  h, t: keys of its values and of its deadlines
--        now: the server's clock in milliseconds
local h, t = KEYS[1] .. ':h:' .. ARGV[1], KEYS[1] .. ':t:' .. ARGV[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
