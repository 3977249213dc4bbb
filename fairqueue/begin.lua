-- fragment begin: the beginning of a call that changes a queue as a whole
--
-- It ends the script: without a queue with nil, if the call is a repeat with the answer to the first try, and if the
-- queue lost a key with an error. Otherwise a full server refuses nothing that follows.
--
-- Needs    record
-- Gives    nothing
if not exists then
  return false
elseif answered then
  return answered
end
local missing = broken()
if missing then
  return missing
end
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
