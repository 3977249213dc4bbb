-- lease.acquire(K) token ttl [metadata [waiter]] -> {outcome, fence, remaining, deadline, metadata}
--
-- Takes a lease that nobody holds, or whose deadline has come. The fence of an
-- acquisition is larger than every one before it: it comes from the clock, and
-- goes up by one when the clock has not moved or was set back. A token that holds
-- the lease already adopts it as it is, so that a repeat is the same acquisition.
--
-- The first write for a lease that is free is one that a full server refuses: a
-- lease that could not be stored is not held. What a release left behind has a TTL, which
-- SET takes away.
--
-- A process that will wait is written down, for a release to wake it. It comes again
-- each second; who did not for two is forgotten, and of more than 64 those that came
-- longest ago.
--
-- Needs    open, held
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  token: who acquires, 1 to 64 bytes
-- ARGV[2]  ttl: in milliseconds, from now
-- ARGV[3]  metadata: for people, at most 4,096 bytes
-- ARGV[4]  waiter: the process that will wait when the lease is held, letters and digits.
--          These two are left out where they are empty: each costs time
-- Reply    {1, fence, milliseconds until the deadline, the deadline in Unix
--          milliseconds} for the holder; {0, the same of whoever holds it, its
--          metadata} when it is held
-- Cost     O(1)
-- Repeat   harmless: the second run adopts what the first acquired
if held then
  local outcome = owner == ARGV[1] and 1 or 0
  if outcome == 0 and ARGV[4] then
    local list, known = {}, false
    for id, at in string.gmatch(waiters, '(%w+) (%d+);') do
      if id == ARGV[4] then
        known = now - at < 500
      elseif now - at < 2000 then
        list[#list + 1] = id .. ' ' .. at .. ';'
      end
    end
    if not known then
      if #list >= 64 then
        table.remove(list, 1)
      end
      list[#list + 1] = ARGV[4] .. ' ' .. now .. ';'
      redis.call('PERSIST', K) -- a full server does not refuse it, nor then what follows
      redis.call('SET', K, string.sub(value, 1, #value - #waiters) .. table.concat(list))
    end
  end
  return {outcome, fence, deadline - now, deadline, metadata}
end
local text = ARGV[3] or ''
local lengths = (#ARGV[1] < 10 and '0' or '') .. #ARGV[1] .. ' '
  .. (text == '' and '0000' or string.format('%04d', #text)) .. ' ' .. rsize .. ' '
if fence >= stamp then
  stamp = string.format('%.0f', fence + 1)
end
deadline = string.format('%.0f', now + ARGV[2])
redis.call('SET', K, '2 ' .. stamp .. ' ' .. deadline .. ' ' .. lengths .. ARGV[1] .. text .. released .. waiters)
return {1, stamp, ARGV[2], deadline}
