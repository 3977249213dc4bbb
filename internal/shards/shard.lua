-- fragment shard: a shard that there is, and the time
--
-- A deadline that is counted from now is counted from the next whole millisecond, so
-- that nothing goes before its time.
--
-- Needs  check, clock
-- Gives  soon: the server's clock in milliseconds, rounded up
--        time_of(score): the time that a score is, infinite for a deadline that never
--        comes, 0 for none
--        count(field, by): adds to a counter of the shard; not a script's first write,
--        since a full server refuses it there
local refused = refusal()
if refused then
  return refused
end
local soon = math.ceil(micros / 1000)

local function time_of(score)
  return score == 'inf' and math.huge or tonumber(score or 0)
end

local function count(field, by)
  redis.call('HINCRBY', K, field, by)
end
