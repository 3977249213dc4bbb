-- lease.refresh(K) token ttl -> {held, token, fence, remaining, deadline, metadata}
--
-- Extends a held lease. An expired one is lost, even if no other holder took it: one could
-- have. The deadline never becomes earlier, so a holder whose reply was lost is not wrong.
--
-- Needs    open, held
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  token: of the holder
-- ARGV[2]  ttl: in milliseconds, from now, at most 366 days
-- Reply    the reply of lease.show from now on; {0, '', 0, 0, 0, ''} if it is lost
-- Cost     O(1)
-- Repeat   harmless: the deadline counts from the last run
if not string.find(ARGV[2], '^[1-9]%d*$') or ARGV[2] + 0 > 31622400000 then
  return redis.error_reply('ERR not a TTL: ' .. ARGV[2])
elseif not held or owner ~= ARGV[1] then
  return {0, '', 0, 0, 0, ''}
end
deadline = string.format('%.0f', math.max(deadline, now + ARGV[2]))
redis.call('PERSIST', K) -- a full server accepts this first write
redis.call('SET', K, string.sub(value, 1, 19) .. deadline .. ' ' .. now .. string.sub(value, 47))
return {1, owner, fence, deadline - now, deadline, metadata}
