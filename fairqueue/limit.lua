-- fairqueue.limit(K) owner before after -> {1 or 0, limits}
--
-- Changes the limits of an owner, unless they are others than the caller believes. Creates the
-- queue if there is none.
--
-- Needs    record, flows, limits, owners, create, answers
-- KEYS[1]  K
-- ARGV[1]  owner: '=TENANT' or 'default'
-- ARGV[2]  before: the limits that apply to the owner, as the caller believes; '' for none
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
local owner, key = ARGV[1], prefix .. 'limits'
local found = redis.call('HMGET', key, owner, 'default')
local effective = found[1] or found[2] or ''
if effective ~= ARGV[2] then
  return {0, effective}
end
local missing = exists and broken()
if missing then
  return missing
end
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
if not exists then
  create('')
end
local new, is_default = '', owner == 'default'
if ARGV[3] ~= '' then
  local most, share, rate, waiting, stopped = string.match(ARGV[3], '^%S+ (%d+) (%S+) (%S+) %d+ (%d+) (%d)$')
  new = 'w' .. (is_default and 'd' or '') .. (stopped == '1' and 'p' or '') .. ((most ~= '0' or share ~= '0') and 'f' or '') ..
    (rate ~= '0' and 'r' or '') .. (waiting ~= '0' and 'm' or '')
elseif is_default then
  kinds = string.gsub(kinds or '', 'd', '')
end
enable(new, is_default and 1 or 0)
redis.call('HSET', key, '', string.rep('0', 65)) -- a long value makes a table of the hash, where fields are found at once
redis.call('HDEL', key, owner)
if ARGV[3] ~= '' then
  redis.call('HSET', key, owner, ARGV[3])
end
if not is_default then
  local state = state_of(owner)
  state.limited, state.changed = ARGV[3] ~= '', true
  n.blocked = math.max(0, n.blocked - redis.call('ZREM', blocked, owner))
  local slept = tonumber(redis.call('ZSCORE', prefix .. 'asleep', owner) or nil)
  if slept and slept < math.huge and slept ~= math.floor(slept) then
    redis.call('ZREM', prefix .. 'asleep', owner)
  end
  bring(owner)
end
wake(64)
answer('1 ')
save_states()
save()
return {1, ''}
