-- fragment guard: refuses who expects another server, or another record of a tag
--
-- Who was held up for long must not delete or overwrite what somebody else has put
-- here meanwhile. As long as the record of a tag is the caller's own, the tag is
-- elsewhere, and nobody else puts its keys here.
--
-- Needs    nothing
-- Touches  id, {*}
-- Gives    record: the key of the tag's record
--          found: what it holds, '' for nothing
local record = prefix .. '{' .. ARGV[3] .. '}'
local present = redis.call('GET', prefix .. 'id') or ''
if present ~= ARGV[1] .. '/' .. ARGV[2] then
  return {'stranger', present}
end
local found = redis.call('GET', record) or ''
