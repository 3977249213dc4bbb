-- tracker.queued(K) id [id ...] -> {now, passes, full_started, stamp ...}
--
-- Returns the tracker's data about identifiers.
--
-- Needs    open
-- KEYS[1]  K
-- ARGV     id: at most 1,000
-- Reply    {the server's clock, complete passes, when the last of them began or '', for each
--          identifier its stamp or ''}, times in Unix milliseconds
-- Cost     O(1) an identifier
-- Repeat   harmless: it only reads
local reply = {now, passes, whole and redis.call('HGET', K, 'full_started_ms') or ''}
for i = 1, #ARGV do
  reply[i + 3] = redis.call('ZSCORE', ids, ARGV[i]) or ''
end
return reply
