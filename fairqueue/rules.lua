-- fairqueue.rules(K) tenant after -> {...} or nil
--
-- Shows the limits of one tenant, or a page of all that are stored.
--
-- Needs    record
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  tenant, as in limit; '' for a page
-- ARGV[2]  after: where the page starts: '0', or what the page before answered
-- Reply    nil without a queue; of one tenant {what is stored for it or nil, the default or nil};
--          of a page {where the next one starts or '0'; tenant, limits ...}
-- Cost     O(1), or O(entries) for a page
-- Repeat   harmless: it only reads
if not exists then
  return false
elseif ARGV[1] ~= '' then
  return redis.call('HMGET', prefix .. 'limits', ARGV[1], 'default')
end
local found = redis.call('HSCAN', prefix .. 'limits', ARGV[2], 'COUNT', '100')
local reply = {found[1]}
for i = 1, #found[2], 2 do
  if found[2][i] ~= '' then
    reply[#reply + 1] = found[2][i]
    reply[#reply + 1] = found[2][i + 1]
  end
end
return reply
