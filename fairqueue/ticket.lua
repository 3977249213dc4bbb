-- fragment ticket: what tells one call from another
--
-- A call has a lane, which it shares with no other call in flight, and a ticket: 16 digits of a
-- number that grows with each call of the lane, and 11 random letters.
--
-- Needs    nothing
-- Gives    lane, ticket: the last two arguments, which ARGV has no longer
local ticket, lane = ARGV[#ARGV], ARGV[#ARGV - 1]
ARGV[#ARGV] = nil
ARGV[#ARGV] = nil
