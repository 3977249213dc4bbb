-- fragment hash_open: the one hash that a call reads
--
-- Reads ask for no version: the namespace's record was checked when it was opened.
--
-- Needs  nothing
-- Gives  h, t: keys of its values and of its deadlines
--        now: the server's clock in milliseconds
--        left_of(score): how many milliseconds are left until a deadline, less those
--        that have begun, but at least 1; 0 if it has come, -1 for none
local h, t = KEYS[1] .. ':h:' .. ARGV[1], KEYS[1] .. ':t:' .. ARGV[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function left_of(score)
  if not score then
    return -1
  end
  return tonumber(score) <= now and 0 or math.max(1, score - clock[1] * 1000 - math.ceil(clock[2] / 1000))
end
