-- fragment guard: refuses who expects another server, or another record of a tag
--
-- Who was held up for long must not delete or overwrite what somebody else has put
-- here meanwhile. As long as the record of a tag is the caller's own, the tag is
-- elsewhere, and nobody else puts its keys here.
--
-- K is empty: a member of a fleet is a whole server, and what the keys of a tag are
-- called is its user's affair.
--
-- Needs  nothing
-- Gives  K: what all keys of the server begin with
--        record: the key of the tag's record
--        found: what it holds, '' for nothing
local K = KEYS[1]
local record = K .. 'mr:fleet:{' .. ARGV[3] .. '}'
local present = redis.call('GET', K .. 'mr:fleet:id') or ''
if present ~= ARGV[1] .. '/' .. ARGV[2] then
  return {'stranger', present}
end
local found = redis.call('GET', record) or ''
