-- fragment clock: the server's clock
--
-- It is read once, so time is one moment throughout the script.
--
-- Needs    nothing
-- Gives    micros, now: it is so many microseconds, and so many milliseconds
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
