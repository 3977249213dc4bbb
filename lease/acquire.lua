-- lease.acquire(K) token ttl [metadata [waiter]] -> {outcome, fence, remaining, deadline, metadata}
--
-- Takes a free or expired lease. Its fence is the clock, or the last fence plus one if that is
-- larger. A token that holds the lease already adopts it, so that a repeat is the
-- same acquisition.
--
-- If the lease is held and the clock was set back, it stores the deadline by the present clock.
--
-- A full server refuses the first write for a free lease. SET also removes the TTL of a
-- released one.
--
-- Records a process that will wait, so that a release wakes it. The process repeats the call
-- each second, and is dropped after two. Of more than 64 the oldest are dropped.
--
-- Needs    open, held
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  token: of the caller, 1 to 64 bytes
-- ARGV[2]  ttl: in milliseconds, from now, at most 366 days
-- ARGV[3]  metadata: for people, at most 4,096 bytes
-- ARGV[4]  waiter: the process that waits if the lease is held, at most 64 letters and digits.
--          These two are left out if they are empty, because each costs time
-- Reply    {1, fence, milliseconds until the deadline, the deadline in Unix milliseconds} for
--          the holder; {0, the same of the holder, its metadata} if it is held
-- Cost     O(1)
-- Repeat   harmless: the second run adopts the lease of the first
local wrong = not string.find(ARGV[2], '^[1-9]%d*$') or ARGV[2] + 0 > 31622400000 or ARGV[1] == '' or #ARGV[1] > 64
if wrong or ARGV[3] and #ARGV[3] > 4096 or ARGV[4] and (#ARGV[4] > 64 or not string.find(ARGV[4], '^%w+$')) then
  return redis.error_reply('ERR invalid arguments of an acquire')
elseif held then
  local outcome = owner == ARGV[1] and 1 or 0
  if moved then
    redis.call('PERSIST', K) -- a full server accepts this first write
    redis.call('SET', K, value)
  end
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
      redis.call('PERSIST', K) -- a full server accepts this first write
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
redis.call('SET', K, '3 ' .. stamp .. ' ' .. deadline .. ' ' .. now .. ' ' .. lengths .. ARGV[1] .. text .. released .. waiters)
return {1, stamp, ARGV[2], deadline}
