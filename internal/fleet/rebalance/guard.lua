-- fragment guard: refuses callers that expect another server
--
-- A caller that was suspended must not delete or overwrite data that others have written
-- here meanwhile. As long as the record of a tag is the caller's own, the tag is
-- elsewhere, and no other caller writes its keys here.
--
-- Needs    nothing
-- Touches  id, {*}
-- Gives    record: the key of the tag's record
--          found: its value, '' for none
local record = prefix .. '{' .. ARGV[3] .. '}'
local present = redis.call('GET', prefix .. 'id') or ''
if present ~= ARGV[1] .. '/' .. ARGV[2] then
  return {'stranger', present}
end
local found = redis.call('GET', record) or ''
