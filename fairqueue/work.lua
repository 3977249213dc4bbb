-- fairqueue.work(K) kind max visibility leave enter random [receipt took ...] -> {...}
--
-- Acknowledges deliveries, and then takes messages: the head of the flow whose turn it is, and so
-- on. It says if something is due, but does not do it.
--
-- Needs    record, flows, limits, owners, deliveries, next, answers
-- KEYS[1]  K
-- ARGV[1]  kind: 'c' to take messages for handlers of Consume, 'r' for others
-- ARGV[2]  max: how many messages, at most 100; fewer if they have more than 1 MiB
-- ARGV[3]  visibility: after how many milliseconds they come again
-- ARGV[4]  leave: '1' from a reader that slept and was not woken by a token
-- ARGV[5]  enter: '1' from a reader that sleeps if nothing is there
-- ARGV[6]  random: eight letters for the receipts
-- ARGV     for each of what was handled, at most 100: its receipt; how many milliseconds its handler took,
--          '' for as long as it was in flight
-- Reply    nil without a queue, else {the server's clock; '1' if reading is paused, else '0';
--          '1' if something is due; milliseconds until something is due, or -1; a digit for
--          each receipt: 0 for a stale one, else 1; then for each message its receipt, its tail and a
--          '.', and what is stored of it}
-- Cost     O(log N) a message
-- Repeat   harmless: the lane knows the answer; what is no longer in flight is left out
if not exists then
  return false
end
local function item(receipt, tail, body)
  return receipt .. string.format('%04d', #tail) .. tail .. body
end
if answered then
  local known, unfinished, receipts = string.match(answered, '^(%d*) (%d)(.*)$')
  local reply = {now, paused and '1' or '0', unfinished, 0, known}
  for receipt in string.gmatch(receipts, string.rep('.', 24)) do
    local found = redis.call('HMGET', hot, receipt, string.sub(receipt, 1, 16))
    if found[1] and found[2] then
      local last = string.byte(found[1], 33) == 59 and string.sub(found[1], 34, 37) - 963 or 33 -- ;
      reply[#reply + 1] = item(receipt, string.sub(found[1], 38, last), found[2])
    end
  end
  reply[3] = #receipts > 0 and #reply == 5 and '1' or unfinished
  return reply
end
local consumes, max = ARGV[1] == 'c' and n.capacity > 0, paused and 0 or tonumber(ARGV[2])
local size = redis.call('ZCARD', active)
if size <= 2 then -- there is time to check
  local missing = broken()
  if missing then
    return missing
  end
end
redis.call('LLEN', young)
redis.call('ZCARD', flight)
redis.call('ZCARD', blocked)
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
n.used = now
local due = now >= n.next or n.flying > 0 and n.next > now + 10000
if due then
  n.next = now + 100 -- another call does not say so, too
end

-- Acknowledge.
local verdicts, receipts = {}, {}
for i = 7, #ARGV, 2 do
  receipts[#receipts + 1] = ARGV[i]
end
if #receipts > 0 then
  for i, value in ipairs(redis.call('HMGET', hot, unpack(receipts))) do
    local receipt = receipts[i]
    verdicts[i] = 0
    if value and not gone[receipt] then
      local id = finish(receipt, value, ARGV[6 + 2 * i])
      if n.cancelled > 0 and redis.call('HEXISTS', hot, id) == 0 then
        n.cancelled = n.cancelled - 1
      else
        verdicts[i], gone[id], sets[id], n.acked, n.removed = 1, true, nil, n.acked + 1, n.removed + 1
        if string.find(value, '^%u', 30) then
          redis.call('ZREM', prefix .. 'deadlines', id)
        end
      end
    end
  end
end
verdicts = table.concat(verdicts)

if ARGV[4] == '1' and n.sleepers > 0 then
  n.sleepers = n.sleepers - 1
end
local reply, taken, more = {now, paused and '1' or '0', '0', -1, verdicts}, {}, false
if max > 0 then
  if epoch then
    more = rouse(max + 10)
    local over = rating and redis.call('ZRANGEBYSCORE', prefix .. 'buckets', '-inf', instant .. '999', 'LIMIT', '0', whole(2 * max)) or {} -- twice as many as it may add
    if #over > 0 then
      redis.call('ZREM', prefix .. 'buckets', unpack(over))
    end
  end
  if n.blocked > 0 then
    more = unblock(consumes and n.capacity - n.busy, max + 10) or more
  end
  local kind, lost = consumes and 'c' or counting and 'o' or 'r'
  lost = take_next(max, kind, consumes, tonumber(ARGV[3]), ARGV[6], function(receipt, tail, body)
    taken[#taken + 1] = receipt
    reply[#reply + 1] = item(receipt, tail, body)
  end)
  if #taken == 0 then
    due = due or more or lost
    reply[4] = whole(math.max(0, math.min(n.next - now, 1e9)))
    if ARGV[5] == '1' and not due then
      n.sleepers = n.sleepers + 1
    end
  end
end
reply[3] = due and '1' or '0'
if freed > #taken or earlier > 0 then
  wake(math.max(earlier, freed - #taken)) -- for readers whose handlers are free
end
answer(verdicts .. ' ' .. reply[3] .. table.concat(taken))
save_states()
save()
return reply
