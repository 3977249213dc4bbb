-- upkeep.totals(K) -> {processes, job, counts, ...}
--
-- Returns the outcomes of the recruits of all processes, all of one moment.
--
-- Needs    open
-- KEYS[1]  K
-- ARGV     none
-- Reply    how many processes run, and each job with its nine numbers, spaces in
--          between: worked, idle, error, timeout, panic, busy, breaker, rounds, and
--          when it last worked in Unix milliseconds, 0 for never
-- Cost     O(jobs), of which there are at most 100, and O(log N) of N processes
-- Repeat   harmless: it only reads
local running = redis.call('ZCOUNT', processes, '(' .. string.format('%.0f', now), '+inf')
local reply = {redis.call('ZSCORE', processes, '') and running - 1 or running}
local stored = version and redis.call('HGETALL', K) or {}
for j = 1, #stored, 2 do
  local job = string.match(stored[j], '^job:(.*)$')
  if job then
    reply[#reply + 1] = job
    reply[#reply + 1] = stored[j + 1]
  end
end
return reply
