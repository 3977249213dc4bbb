-- tracker.oldest(K) n grace -> {now, id, stamp, ...}
--
-- Returns the identifiers to verify: first those with stamps ahead of the clock, which was set
-- back, then the oldest stamps. It skips stamps within the grace.
--
-- Needs    open
-- KEYS[1]  K
-- ARGV[1]  n: at most so many, 1,000 or fewer
-- ARGV[2]  grace: in milliseconds, 1 or more
-- Reply    {the server's clock in Unix milliseconds, identifier, its stamp, ...}
-- Cost     O(log N + n)
-- Repeat   harmless: it only reads
local n, grace = tonumber(ARGV[1]), tonumber(ARGV[2])
local reply = {now}
local function take(found)
  for i = 1, #found do
    reply[#reply + 1] = found[i]
  end
  n = n - #found / 2
end
take(redis.call('ZRANGEBYSCORE', ids, now + grace, '(+inf', 'WITHSCORES', 'LIMIT', 0, n))
if n > 0 then
  take(redis.call('ZRANGEBYSCORE', ids, '-inf', now - grace, 'WITHSCORES', 'LIMIT', 0, n))
end
return reply
