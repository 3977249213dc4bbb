-- tracker.add(K) id [id ...] -> number of new identifiers
--
-- Records that identifiers have work queued now. It sets the stamp even if the clock was set
-- back, so that a verification that began before finds the stamp changed.
--
-- Needs    open, create
-- KEYS[1]  K
-- ARGV     id: 1 to 512 bytes each, at most 1,000
-- Reply    how many of them were not tracked
-- Cost     O(log N) an identifier
-- Repeat   harmless: the second run finds them tracked, and sets a later stamp
for i = 1, #ARGV do
  if ARGV[i] == '' or #ARGV[i] > 512 or i > 1000 then
    return redis.error_reply('ERR at most 1,000 identifiers of 1 to 512 bytes')
  end
end
local new = 0
for i = 1, #ARGV do
  new = new + redis.call('ZADD', ids, now, ARGV[i])
end
make_whole()
if new > 0 then
  redis.call('HINCRBY', K, 'added', new)
end
return new
