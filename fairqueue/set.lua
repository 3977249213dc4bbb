-- fairqueue.set(K) field value ... -> 1 or 2
--
-- Changes settings of a queue and positions of sources, and wakes readers.
--
-- Needs    record, flows, limits, answers, begin
-- KEYS[1]  K
-- ARGV     pairs of a field of K, paused, streams, attempts, dead_most, dead_age or at:SOURCE, and its value; '' to forget it
-- Reply    nil without a queue, 2 for streams where there are limits
-- Cost     O(1)
-- Repeat   harmless: the lane knows the answer
if ARGV[1] == 'streams' and ARGV[2] ~= '' and epoch and
  (redis.call('HLEN', prefix .. 'limits') > 1 or redis.call('ZCARD', prefix .. 'asleep') > 1) then
  return 2
end
local forms = {paused = '^1$', streams = '^%d* ?%d*$', attempts = '^[1-9]%d*$', dead_most = '^%d*$', dead_age = '^%d*$'}
for i = 1, #ARGV, 2 do
  local form = forms[ARGV[i]] or string.find(ARGV[i], '^at:.') and '^%d*$'
  if not form or ARGV[i + 1] ~= '' and not string.find(ARGV[i + 1] or 'none', form) then
    return redis.error_reply('ERR not a setting: ' .. ARGV[i])
  end
end
for i = 1, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  local added = (value ~= '' and 1 or 0) - redis.call('HDEL', K, field)
  if value ~= '' then
    redis.call('HSET', K, field, value)
  end
  if field == 'paused' then
    paused = value ~= '' and value
  elseif field == 'streams' then
    streams, n.digest = value ~= '' and value, ''
    redis.call('HSET', K, 'streamed', '1')
  elseif field == 'attempts' then
    attempts, n.digest = value ~= '' and value, ''
  elseif string.find(field, '^at:') then
    redis.call('HINCRBY', K, 'sources', added)
  end
end
wake(64)
answer('1')
save()
return '1'
