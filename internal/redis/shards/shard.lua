-- fragment shard: a shard that exists, and the time
--
-- A TTL counts from the next whole millisecond, so that nothing expires before its time.
--
-- Needs  check, clock
-- Gives  soon: the server's clock in milliseconds, rounded up
--        time_of(score): the time of a score, infinite for no deadline, 0 for no score
--        count(field, by): adds to a counter of the shard; never a script's first write,
--        because a full server refuses it
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
