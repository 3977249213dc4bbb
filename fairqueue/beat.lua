-- fairqueue.beat(K) visibility reader handlers busy name host {receipt} ... -> {roll, 1 or 0, ...}
--
-- Extends deliveries, and registers a reader. A reader extends a delivery from a sixth of its time on: most have ended by
-- then. A reader that was not registered again for 15 seconds is removed, with
-- its handlers, and the roll is another one: so all others register again before they take messages. A reader that
-- registered by a clock that was ahead is removed, too.
--
-- Needs    record, begin
-- KEYS[1]  K
-- ARGV[1]  visibility: for how many milliseconds from now
-- ARGV[2]  reader: letters that no other reader has, or ''
-- ARGV[3]  handlers: how many it runs at once, with decimals if it shares them with others; 0 for one that leaves
-- ARGV[4]  busy: how many of them work
-- ARGV[5]  name: of the reader, without control characters
-- ARGV[6]  host: where it runs, the same
-- ARGV     receipts, at most 100
-- Reply    the roll; for each receipt 1, or 0 for one that is stale: its message was cancelled, or another reader has it; nil
--          without a queue
-- Cost     O(log N) a receipt, and every 5 seconds O(readers)
-- Repeat   harmless: it sets the same again
local reply, flight, readers = {}, prefix .. 'flight', prefix .. 'readers'
local values = #ARGV > 6 and redis.call('HMGET', hot, unpack(ARGV, 7)) or {}
for i, value in ipairs(values) do
  local receipt = ARGV[i + 6]
  local good = value and (n.cancelled == 0 or redis.call('HEXISTS', hot, string.sub(receipt, 1, 16)) == 1)
  local left = good and string.sub(value, 17, 29) - now
  reply[i + 1] = good and 1 or 0
  if good and (ARGV[2] == '' or left <= ARGV[1] * 5 / 6 or left > ARGV[1] + 0) then
    redis.call('ZADD', flight, whole(now + ARGV[1]), receipt)
    sets[receipt] = string.sub(value, 1, 16) .. whole(now + ARGV[1]) .. string.sub(value, 30, 30) .. 'f' .. instant .. string.match(value, '^%d*(.*)$', 32)
    due_at(now + ARGV[1])
  end
end
if ARGV[2] ~= '' then
  if ARGV[3] == '0' then
    redis.call('HDEL', readers, ARGV[2])
  else
    redis.call('HSET', readers, ARGV[2], table.concat({instant, ARGV[3], ARGV[4], ARGV[5], ARGV[6]}, '\1'))
  end
  local capacity, all = 0, redis.call('HGETALL', readers)
  for i = 1, #all, 2 do
    local seen, handlers = string.match(all[i + 1], '^(%d+)\1([%d.]+)\1')
    seen = tonumber(seen)
    if seen and (seen < now - 15000 or seen > now) then
      redis.call('HDEL', readers, all[i])
      renew_roll()
    else
      capacity = capacity + (tonumber(handlers) or 0)
    end
  end
  n.capacity = math.floor(1000 * capacity + 0.5) / 1000
end
save()
reply[1] = n.roll
return reply
