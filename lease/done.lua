-- lease.done(K) token until text length -> outcome
--
-- Turns a held lease into the record of a success: it stays held until the end of a period, with a text for its
-- metadata. An expired lease is lost, as in lease.refresh.
--
-- The record ends at an instant, also if the clock is set back a little. So it is as if it was
-- written a period earlier: a clock that is set back further gives it another end, after two
-- periods at most.
--
-- Needs    open, held
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  token: of the holder
-- ARGV[2]  until: the end of the period in Unix milliseconds, 13 digits
-- ARGV[3]  text: the new metadata, at most 4,096 bytes
-- ARGV[4]  length: of a period in milliseconds, at most 366 days
-- Reply    1 if it is recorded; 2 if the period is over: nothing is changed; 0 if the lease is lost
-- Cost     O(1)
-- Repeat   harmless: the second run writes the same
if #ARGV[2] ~= 13 or not string.find(ARGV[2], '^%d+$') or #ARGV[3] > 4096
  or not string.find(ARGV[4] or '', '^[1-9]%d*$') or ARGV[4] + 0 > 31622400000 then
  return redis.error_reply('ERR invalid arguments of a success')
elseif not held or owner ~= ARGV[1] then
  return 0
end
if ARGV[2] <= now then
  return 2
end
redis.call('PERSIST', K) -- a full server accepts this first write
redis.call('SET', K, string.sub(value, 1, 19) .. ARGV[2] .. string.format(' %013.0f', now - ARGV[4]) .. string.sub(value, 47, 50)
  .. string.format('%04d', #ARGV[3]) .. string.sub(value, 55, 58 + size) .. ARGV[3] .. released .. waiters)
return 1
