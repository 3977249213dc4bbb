-- fairqueue.work(K) how max visibility limit slept sleep random {receipt verb arg} ... -> {...}
--
-- Settles deliveries, and then takes messages: the head of the flow whose turn it is, and
-- so on. What is due is looked for at most every 100 ms.
--
-- Needs    record, turns, flight, wake, lane
-- KEYS[1]  K
-- ARGV[1]  how: 'c' to take messages for handlers of Consume, 'r' for others
-- ARGV[2]  max: how many messages, at most 1,000; fewer if they are more than 1 MiB
-- ARGV[3]  visibility: after how many milliseconds they come again
-- ARGV[4]  limit: after so many deliveries a message is dead; 0 for what is stored
-- ARGV[5]  slept: '1' from a reader that slept and was not woken by a token
-- ARGV[6]  sleep: '1' from a reader that sleeps if nothing is there
-- ARGV[7]  random: letters for the receipts
-- ARGV     for each delivery to settle, at most 1,000: its receipt; 'a' if it was handled,
--          'n' if it failed, 'd' if the message is to die, 'u' if nobody was there; '' or
--          the delay in milliseconds, a space and the reason
-- Reply    nil without a queue, else {the server's clock; '1' if reading is off, '2' if
--          the caller is to come again at once, else '0'; milliseconds until something is
--          due, or -1; a digit for each settlement: 0 for a stale receipt, 2 for a message
--          that is dead, else 1; then receipt, body ...}
-- Cost     O(log N) a message
-- Repeat   harmless: the lane knows the answer; what is not in flight any more is left out
if not exists then
  return false
end
if answered then
  local known, at = string.match(answered, '^(%d*) ()')
  local reply = {now, '0', 0, known}
  while at <= #answered do
    local size, from = string.match(answered, '^(%d+):()', at)
    local receipt = string.sub(answered, from, from + size - 1)
    local body = redis.call('ZSCORE', flight, receipt) and redis.call('HGET', messages, string.match(receipt, '^%d+'))
    if body then
      reply[#reply + 1] = receipt
      reply[#reply + 1] = body
    end
    at = from + size
  end
  reply[2] = #reply > 4 and '0' or '2'
  return reply
end
redis.call('ZCARD', backlog) -- what is something else ends the script here
redis.call('ZCARD', active)
redis.call('HLEN', messages)
redis.call('ZCARD', flight)

redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
local consumes, max = ARGV[1] == 'c' and numbers.capacity > 0, tonumber(ARGV[2])
local limit = tonumber(ARGV[4])
limit = limit > 0 and limit or tonumber(record.attempts or 5)
local verdicts = {}
for arg = 8, #ARGV, 3 do
  verdicts[#verdicts + 1] = settle(ARGV[arg], ARGV[arg + 1], ARGV[arg + 2], limit)
end

local state = record.paused and '1' or '0'
if now - numbers.looked >= 100 or now < numbers.looked then
  changes.looked = tend(limit, 100) and 0 or now
end
if ARGV[5] == '1' and numbers.sleepers > 0 then
  changes.sleepers, numbers.sleepers = numbers.sleepers - 1, numbers.sleepers - 1
end

local reply, receipts, spent, room, largest = {now, state, -1, table.concat(verdicts)}, {}, 0, 1048576, 131072

-- The heads of the flows whose turn it is, one of each.
local function pick(most)
  local turns, picked, progress = redis.call('ZRANGE', active, 0, most - 1, 'WITHSCORES'), {}, false
  local before, soonest = virtual, math.huge
  for i = 1, #turns, 2 do
    local flow, at = turns[i], tonumber(turns[i + 1])
    if flow == '' or at >= soonest then
      break
    end
    local from, to = range(flow)
    local heads = redis.call('ZRANGEBYLEX', backlog, from, to, 'LIMIT', 0, 2)
    local tenant = heads[1] and tenant_of(heads[1])
    if not tenant then
      redis.call('ZREM', active, flow) -- its messages were cancelled
      progress = true
    elseif consumes and not may_start(tenant) then
      block(flow, tenant)
      progress = true
    else
      if consumes then
        begin(tenant)
      end
      virtual = math.max(virtual, at)
      local next_at = tag(flow)
      soonest = math.min(soonest, next_at)
      picked[#picked + 1] = {
        flow = flow, member = heads[1], tenant = tenant, virtual = virtual, next_at = heads[2] and next_at,
        id = string.sub(heads[1], #flow + 3, #flow + 18),
      }
    end
  end
  virtual = before
  return picked, progress
end

-- Delivers what was picked, as far as there is room.
local function deliver(picked)
  local gone, flying, turns, idle, at = {}, {}, {}, {}, 1
  while at <= #picked and room > 0 do
    local ids = {}
    for i = at, math.min(#picked, at + math.max(0, math.floor(room / largest) - 1)) do
      ids[#ids + 1] = picked[i].id
    end
    for i, body in ipairs(redis.call('HMGET', messages, unpack(ids))) do
      local one = picked[at + i - 1]
      local deadline = body and string.match(body, '^(%d*):')
      gone[#gone + 1] = one.member
      if not body or deadline ~= '' and tonumber(deadline) <= now then
        if body then
          remove(one.id)
          count('expired', 1)
        else
          count('lost', 1)
        end
        spent, idle[one.flow] = spent + 1, nil
        if consumes then
          finish(one.tenant)
        end
      else
        local kind = consumes and 'c' or 'r'
        local attempts = tonumber(string.match(one.member, '^;(%d+);', #one.flow + 19) or 0)
        local receipt = one.id .. ':' .. attempts + 1 .. ':' .. (deadline ~= '' and string.upper(kind) or kind) .. ':' ..
          whole(now) .. ':' .. ARGV[7] .. ':' .. one.member
        flying[#flying + 1] = now + tonumber(ARGV[3])
        flying[#flying + 1] = receipt
        receipts[#receipts + 1] = #receipt .. ':' .. receipt
        reply[#reply + 1] = receipt
        reply[#reply + 1] = body
        virtual, room = math.max(virtual, one.virtual), room - #body
        largest = #reply == 6 and math.max(64, #body) or math.max(largest, #body)
        if one.next_at then
          turns[#turns + 1] = one.next_at
          turns[#turns + 1] = one.flow
        else
          idle[#idle + 1] = one.flow
        end
        seen(one.tenant)
      end
    end
    at = at + #ids
  end
  for i = at, #picked do
    if consumes then
      finish(picked[i].tenant)
    end
  end
  if #gone > 0 then
    redis.call('ZREM', backlog, unpack(gone))
  end
  if #flying > 0 then
    redis.call('ZADD', flight, unpack(flying))
  end
  if #turns > 0 then
    redis.call('ZADD', active, unpack(turns))
  end
  if #idle > 0 then
    redis.call('ZREM', active, unpack(idle))
  end
end

if max > 0 and not record.paused then
  if redis.call('ZCARD', blocked) > 1 then
    unblock(consumes and numbers.capacity - busy, max + 10)
    if consumes and record.tenant then
      recheck(record.tenant)
    end
  end
  local progress = true
  while progress and #receipts < max and spent < 1000 and room > 0 do
    local before, picked = #receipts + spent, nil
    picked, progress = pick(max - #receipts)
    deliver(picked)
    progress = progress or #receipts + spent > before
  end
  count('delivered', #receipts)
  if #receipts == 0 and (spent >= 1000 or changes.looked == 0) then
    reply[2] = '2'
  elseif #receipts == 0 then
    reply[3] = next_due()
  end
end
if ARGV[6] == '1' and #receipts == 0 and reply[2] ~= '2' then
  changes.sleepers, numbers.sleepers = numbers.sleepers + 1, numbers.sleepers + 1
end
wake(returned)
book()
save()
answer(table.concat(verdicts) .. ' ' .. table.concat(receipts))
return reply
