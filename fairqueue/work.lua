-- fairqueue.work(K) roll max visibility leave enter random [receipt took ...] -> {...}
--
-- Acknowledges deliveries, and then takes messages: the head of the flow whose turn it is, and so
-- on. It reports due work, but does not do it.
--
-- Needs    record, flows, limits, owners, dedupes, deliveries, batches, returns, next, answers
-- KEYS[1]  K
-- ARGV[1]  roll: with which the readers are registered, to take messages for handlers; 'r' for other readers
-- ARGV[2]  max: how many messages, at most 100; fewer if they have more than 1 MiB
-- ARGV[3]  visibility: after how many milliseconds they come again
-- ARGV[4]  leave: '1' from a reader that slept and was not woken by a token
-- ARGV[5]  enter: '1' from a reader that sleeps if nothing is there
-- ARGV[6]  random: eight letters for the receipts
-- ARGV[7]  only: the flow of the only tenant that may be alone, '' for any
-- ARGV     for each handled message, at most 100: its receipt; how many milliseconds its handler took,
--          '' for as long as it was in flight
-- Reply    nil without a queue; 'register' if it takes beat first: nothing was changed; else {the server's clock; '1' if reading is paused, '2' if limits
--          count deliveries, which takes twice as long, else '0'; '1' if something is due; milliseconds until something is due, or -1; a digit for
--          each receipt: 0 for a stale one, else 1; then for each message its receipt, its second field if it has one, and its stored text}
-- Cost     O(log N) a message
-- Repeat   harmless: the lane knows the answer; messages no longer in flight are left out
if not exists then
  return false
end
local state = paused and '1' or (counting or rating) and '2' or '0'
if answered then
  local known, unfinished, receipts = string.match(answered, '^(%d*) (%d)(.*)$')
  local reply = {now, state, unfinished, 0, known}
  for receipt in string.gmatch(receipts, string.rep('.', 24)) do
    local id = string.sub(receipt, 1, 16)
    local found = redis.call('HMGET', hot, receipt, id, 'a' .. id)
    if found[1] and found[2] then
      reply[#reply + 1] = receipt .. (found[3] or '') .. found[2]
    end
  end
  reply[3] = #receipts > 0 and #reply == 5 and '1' or unfinished
  return reply
end
local consumes, max = ARGV[1] ~= 'r', paused and 0 or tonumber(ARGV[2])
if consumes and max > 0 and ARGV[1] ~= n.roll then
  return 'register'
end
only = ARGV[7] ~= '' and ARGV[7]
local receipts = {}
for i = 8, #ARGV, 2 do
  receipts[#receipts + 1] = ARGV[i]
end
if #receipts + n.blocked == 0 and redis.call('ZCARD', active) <= 2 then -- there is time to check
  local missing = broken()
  if missing then
    return missing
  end
end
if max > 0 then -- a key of another type ends the script here
  redis.call('LLEN', young)
  redis.call('ZCARD', active)
end
if #receipts > 0 then
  redis.call('ZCARD', flight)
end
if consumes or limiting or n.blocked > 0 then
  redis.call('ZCARD', blocked)
end
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
local due = now >= n.next or behind > 0
if due then
  n.next = now + 100 -- another call does not say so, too
end

-- Acknowledge.
local verdicts = {}
if #receipts > 0 then
  local values, owners = redis.call('HMGET', hot, unpack(receipts)), {}
  for _, value in ipairs(values) do
    owners[#owners + 1] = value and string.match(value, '=.*$', 32) or nil
  end
  if #owners > 0 then
    load_states(owners)
  end
  for i, value in ipairs(values) do
    local receipt = receipts[i]
    verdicts[i] = 0
    if value and not gone[receipt] then
      local id = finish(receipt, value, ARGV[7 + 2 * i])
      if n.cancelled > 0 and redis.call('HEXISTS', hot, id) == 0 then
        n.cancelled = n.cancelled - 1
      else
        verdicts[i], gone[id], sets[id], n.acked, n.removed = 1, true, nil, n.acked + 1, n.removed + 1
        if string.find(value, '^%u', 30) then
          redis.call('ZREM', deadlines, id)
          gone['a' .. id] = true
          leaves_batch(string.match(value, '^%d*@(%d+)', 32) or '', 'handled')
        end
      end
    end
  end
end
verdicts = table.concat(verdicts)

if ARGV[4] == '1' and n.sleepers > 0 then
  n.sleepers = n.sleepers - 1
end
local reply, taken, more = {now, state, '0', -1, verdicts}, {}, false
if max > 0 then
  if epoch then
    more = resume_due(max + 10)
    local over = {}
    if rating then -- it forgets twice as many as it may add
      over = redis.call('ZRANGEBYSCORE', prefix .. 'buckets', '-inf', instant .. '999', 'LIMIT', '0', whole(2 * max))
    end
    if #over > 0 then
      redis.call('ZREM', prefix .. 'buckets', unpack(over))
    end
  end
  if n.blocked > 0 then
    more = unblock(consumes and n.capacity - n.busy, max) or more
  end
  local kind = consumes and 'c' or counting and 'o' or 'r'
  local behind = take_next(max, kind, consumes, tonumber(ARGV[3]), ARGV[6], function(receipt, made, body)
    taken[#taken + 1] = receipt
    reply[#reply + 1] = receipt .. made .. body
  end)
  if #taken == 0 then
    due = due or more or behind
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
save_batches()
save_states()
save()
return reply
