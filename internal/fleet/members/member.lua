-- fragment member: refuses who expects another server
--
-- A server that was restarted without its data, or is another one than the
-- directory says, does not have the identity that the caller expects. It must
-- neither say that a tag is not here, nor take one.
--
-- Needs    nothing
-- Touches  id
-- Gives    own: this partition's number
local own = ARGV[2]
local present = redis.call('GET', K .. ':id')
if present ~= ARGV[1] .. '/' .. own then
  return {'stranger', present or ''}
end
