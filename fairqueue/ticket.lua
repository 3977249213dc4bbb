-- fragment ticket: a call that takes effect once, however often it is sent
--
-- A call has a lane, which it shares with no other call in flight, and a ticket: 16 digits of a number that grows
-- with each call of the lane, and 11 random letters. The lane's field of hot has the ticket of its last call, the second
-- of that call in 10 digits, or zeros once upkeep has seen it, and the answer. The same ticket is a repeat, and gets that answer. A lower number came too
-- late, and the same number with other letters came from a copy of the machine: both are refused.
--
-- Needs    nothing
-- Gives    lane, ticket: the last two arguments, which ARGV has no longer
--          replay(stored) -> the answer if this call is a repeat; nil if it is not; an error if it comes too late
local ticket, lane = ARGV[#ARGV], ARGV[#ARGV - 1]
ARGV[#ARGV] = nil
ARGV[#ARGV] = nil

local function replay(stored)
  if stored < string.sub(ticket, 1, 16) then -- the same number and more would be larger
    return nil
  elseif string.sub(stored, 1, 27) == ticket then
    return string.sub(stored, 38)
  end
  return redis.error_reply('LANE the lane is at ' .. string.sub(stored, 1, 16))
end
