-- lease.done(K) token until text -> outcome
--
-- Turns a held lease into the record of a success: it stays held until the end of a period, with a text for its
-- metadata. An expired lease is lost, as in lease.refresh.
--
-- Needs    open, held
-- Touches  K
-- KEYS[1]  K
-- ARGV[1]  token: of the holder
-- ARGV[2]  until: the end of the period in Unix milliseconds, 13 digits
-- ARGV[3]  text: the new metadata, at most 4,096 bytes
-- Reply    1 if it is recorded; 2 if the period is over: nothing is changed; 0 if the lease is lost
-- Cost     O(1)
-- Repeat   harmless: the second run writes the same
if #ARGV[2] ~= 13 or not string.find(ARGV[2], '^%d+$') or #ARGV[3] > 4096 then
  return redis.error_reply('ERR invalid arguments of a success')
elseif not held or owner ~= ARGV[1] then
  return 0
end
if ARGV[2] <= now then
  return 2
end
redis.call('PERSIST', K) -- a full server accepts this first write
redis.call('SET', K, string.sub(value, 1, 19) .. ARGV[2] .. string.sub(value, 33, 36)
  .. string.format('%04d', #ARGV[3]) .. string.sub(value, 41, 44 + size) .. ARGV[3] .. released .. waiters)
return 1
