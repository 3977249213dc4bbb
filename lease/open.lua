-- fragment open: a lease's state, before anything is written
--
-- Refuses what is not a lease of this version. The hash is read first, so that a
-- key of a wrong type ends the script here, before its first write. Time is one
-- moment throughout the script.
--
-- Needs  nothing
-- Gives  now, now_us: the server's clock in milliseconds and in microseconds
--        owner, fence, deadline, metadata: what the hash says; the owner and the
--        metadata are false when it does not, the numbers are 0
--        held: whether there is an owner whose deadline has not come
--        waited: whether somebody said not long ago that it waits
--        keep: for how long what is left of a lease stays, in milliseconds
local keep = 60000

local found = redis.call('HMGET', K, 'version', 'token', 'fence', 'deadline_ms', 'metadata', 'waited_ms')
local owner, metadata = found[2], found[5]
local fence, deadline = tonumber(found[3] or 0) or 0, tonumber(found[4] or 0) or 0
if found[1] and found[1] ~= '1' then
  return redis.error_reply('VERSION ' .. found[1])
elseif not found[1] and redis.call('EXISTS', K) == 1 then
  return redis.error_reply('BROKEN the version is missing')
end

local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2]
local now = math.floor(now_us / 1000)
local held = owner and now < deadline
local waited = now < (tonumber(found[6] or 0) or 0) + 2000 -- who waits asks again each second
