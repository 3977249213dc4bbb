-- fairqueue.stats(K) -> {...} or nil
--
-- Looks and changes nothing.
--
-- Needs    waits
-- KEYS[1]  K
-- ARGV     none
-- Reply    nil without a queue, else {the server's clock, delayed, dead, {field,
--          value, ...} of the queue's hash, {index, waiting, in flight, since when
--          the one that has waited longest could be read} of each stream that holds
--          messages ...}, times in milliseconds
-- Cost     O(streams), at most 1,024
-- Repeat   harmless: it writes nothing
if streams == 0 then
  return false
end
local reply = {
  string.format('%.0f', now), redis.call('ZCARD', K .. ':delayed'), redis.call('XLEN', K .. ':dead'), redis.call('HGETALL', K),
}
for i = 0, span - 1 do
  local key = stream_key(i)
  if redis.call('EXISTS', key) == 1 and redis.call('XLEN', key) > 0 then
    local waiting = waits_in(i)
    local flying, oldest = 0, ''
    local from = '-'
    for _, one in ipairs(redis.call('XINFO', 'GROUPS', key)) do
      if field_of(one, 'name') == group then
        flying, from = field_of(one, 'pending'), '(' .. field_of(one, 'last-delivered-id')
      end
    end
    if waiting > 0 then
      local head = redis.call('XRANGE', key, from, '+', 'COUNT', 1)[1]
      oldest = head and string.match(head[1], '^%d+') or ''
    end
    reply[#reply + 1] = {i, waiting, flying, oldest}
  end
end
return reply
