-- fragment token: the reservation that a caller names
--
-- A failover or an old snapshot may take reservations back, and then their numbers come again.
-- The random letters behind its number tell a token of such a reservation from today's.
--
-- Needs    open
-- Gives    covered: the number of the token ARGV[1], if it is one of the newest reservations
--          of this Ick, else -1: folds with a higher number are later than the token
local covered = -1
if string.find(tokens, ' ' .. ARGV[1] .. ' ', 1, true) then
  covered = tonumber(string.match(ARGV[1], '^%d+')) or -1
end
