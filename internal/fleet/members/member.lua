-- fragment member: refuses callers that expect another server
--
-- A server that lost its data, or is not the one that the directory names, does not have
-- the expected identity. It must neither report that a tag is not here, nor take one.
--
-- Needs    nothing
-- Touches  id
-- Gives    own: this partition's number
local own = ARGV[2]
local present = redis.call('GET', K .. ':id')
if present ~= ARGV[1] .. '/' .. own then
  return {'stranger', present or ''}
end
