-- fragment clock: the server's clock
--
-- It is read once, so a script runs at one instant.
--
-- Needs    nothing
-- Gives    micros, now: the time in microseconds, and in milliseconds
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
