-- fairqueue.limit(K) tenant before after -> {1 or 0, limits}
--
-- Changes the limits of a tenant, unless they are others than the caller believes. Creates the
-- queue if there is none.
--
-- Needs    record, always, limits, turns, create, wake, lane
-- KEYS[1]  K
-- ARGV[1]  tenant: '=TENANT' or 'default'
-- ARGV[2]  before: the limits that apply to the tenant, as the caller believes; '' for none
-- ARGV[3]  after: what to store; '' to store nothing, so that the default applies
-- Reply    {1; ''} if they are stored, {0; the limits that apply} if they were others, {2; ''}
--          if flows are streams
-- Cost     O(log N)
-- Repeat   harmless: the lane knows the answer
if answered then
  return {tonumber(string.sub(answered, 1, 1)), string.sub(answered, 3)}
elseif (streams or '') ~= '' then
  return {2, ''}
end
local tenant, key = ARGV[1], prefix .. 'limits'
local found = redis.call('HMGET', key, tenant, 'default')
local effective = found[1] or found[2] or ''
if effective ~= ARGV[2] then
  return {0, effective}
end
local missing = exists and broken(true)
if missing then
  return missing
end
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
if not exists then
  create('')
end
local new = ''
if ARGV[3] ~= '' then
  local most, share, rate, waiting, stopped = string.match(ARGV[3], '^%S+ (%d+) (%S+) (%S+) %d+ (%d+) (%d)$')
  new = 'w' .. (stopped == '1' and 'p' or '') .. ((most ~= '0' or share ~= '0') and 'f' or '') .. (rate ~= '0' and 'r' or '') .. (waiting ~= '0' and 'm' or '')
end
enable(new, tenant == 'default' and 1 or 0)
redis.call('HSET', key, '', string.rep('0', 65)) -- a long value makes a table of the hash, where fields are found at once
redis.call('HDEL', key, tenant)
if ARGV[3] ~= '' then
  redis.call('HSET', key, tenant, ARGV[3])
end
if tenant ~= 'default' then
  n.blocked = math.max(0, n.blocked - redis.call('ZREM', prefix .. 'blocked', tenant))
  local slept = tonumber(redis.call('ZSCORE', prefix .. 'asleep', tenant) or nil)
  if slept and slept < math.huge and slept ~= math.floor(slept) then
    redis.call('ZREM', prefix .. 'asleep', tenant)
  end
  bring(tenant)
end
wake(64)
save()
answer('1 ')
return {1, ''}
