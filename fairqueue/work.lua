-- fairqueue.work(K) how max visibility slept sleep random [receipt ...] -> {...}
--
-- Acknowledges deliveries, and then takes messages: the head of the flow whose turn it is,
-- and so on. It does not do what is due, but says at most every 100 ms that something is.
--
-- Needs    record, turns, wake, lane
-- Touches  flight, delayed, deadlines
-- KEYS[1]  K
-- ARGV[1]  how: 'c' to take messages for handlers of Consume, 'r' for others
-- ARGV[2]  max: how many messages, at most 1,000; fewer if they are more than 1 MiB
-- ARGV[3]  visibility: after how many milliseconds they come again
-- ARGV[4]  slept: '1' from a reader that slept and was not woken by a token
-- ARGV[5]  sleep: '1' from a reader that sleeps if nothing is there
-- ARGV[6]  random: eight letters for the receipts
-- ARGV     receipts of what was handled, at most 1,000
-- Reply    nil without a queue, else {the server's clock; '1' if reading is off, else '0';
--          '1' if something is due; milliseconds until something is due, or -1; a digit
--          for each receipt: 0 for a stale one, else 1; then receipt, body ...}
-- Cost     O(log N) a message
-- Repeat   harmless: the lane knows the answer; what is not in flight any more is left out
if not exists then
  return false
end
local flight, verdicts = prefix .. 'flight', {}
if answered then
  local known, receipts = string.match(answered, '^(%d*) (.*)$')
  local reply = {now, paused and '1' or '0', '0', 0, known}
  for receipt in string.gmatch(receipts == '' and '' or receipts .. '\1\1', '(.-)\1\1') do
    local body = redis.call('ZSCORE', flight, receipt) and redis.call('HGET', messages, string.sub(receipt, 2, 17))
    if body then
      reply[#reply + 1] = receipt
      reply[#reply + 1] = body
    end
  end
  reply[3] = #reply > 5 and '0' or '1'
  return reply
end
redis.call('HLEN', messages) -- what is something else ends the script here
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
local consumes, max = ARGV[1] == 'c' and n.capacity > 0, tonumber(ARGV[2])

if #ARGV > 6 then
  local gone, ids, receipts = {}, {}, {unpack(ARGV, 7)}
  for i, visible in ipairs(redis.call('ZMSCORE', flight, unpack(receipts))) do
    local receipt = receipts[i]
    local id = string.sub(receipt, 2, 17)
    verdicts[i] = 0
    if visible and not gone[receipt] then
      gone[#gone + 1], gone[receipt] = receipt, true
      if n.cancelled > 0 and redis.call('HEXISTS', messages, id) == 0 then
        n.cancelled = n.cancelled - 1
      else
        ids[#ids + 1], verdicts[i] = id, 1
      end
    end
  end
  if #gone > 0 then
    redis.call('ZREM', flight, unpack(gone))
  end
  for _, receipt in ipairs(gone) do
    local how = string.byte(receipt)
    if how == 67 or how == 82 then -- C, R
      redis.call('ZREM', prefix .. 'deadlines', string.sub(receipt, 2, 17))
    end
    land(receipt, true)
  end
  if #ids > 0 then
    n.acked = n.acked + redis.call('HDEL', messages, unpack(ids))
  end
end
verdicts = table.concat(verdicts)

-- How long it is until something is visible again or is to be, at least 0, or -1.
local function next_due()
  local soonest = math.min(tonumber(redis.call('ZRANGE', flight, 0, 0, 'WITHSCORES')[2]) or math.huge,
    tonumber(redis.call('ZRANGE', prefix .. 'delayed', 0, 0, 'WITHSCORES')[2]) or math.huge)
  return soonest < math.huge and math.max(0, soonest - now) or -1
end

local due = false
if now - n.looked >= 100 or now < n.looked then
  n.looked = now
  due = next_due() == 0 or (tonumber(redis.call('ZRANGE', prefix .. 'deadlines', 0, 0, 'WITHSCORES')[2]) or math.huge) <= now
end
if ARGV[4] == '1' and n.sleepers > 0 then
  n.sleepers = n.sleepers - 1
end

local reply, receipts, lost, room, largest = {now, paused and '1' or '0', '0', -1, verdicts}, {}, 0, 1048576, 131072
local kind, mortal = consumes and 'c' or 'r', consumes and 'C' or 'R'
local stamp = string.format('%013.0f', now) .. ARGV[6]

local skipped = 0 -- flows

-- The heads of the flows whose turn it is, one of each.
local function pick(most)
  local turns, picked, progress = redis.call('ZRANGE', active, 0, most - 1, 'WITHSCORES'), {}, false
  local before, soonest = virtual, math.huge
  if consumes and #turns > 2 and string.byte(turns[1]) == 61 then
    local tenants = {}
    for i = 1, #turns, 2 do
      tenants[#tenants + 1] = turns[i]
    end
    know(tenants)
  end
  for i = 1, #turns, 2 do
    local flow, at = turns[i], tonumber(turns[i + 1])
    if flow == '' or at >= soonest then
      break
    end
    local from, to = range(flow)
    local heads = redis.call('ZRANGEBYLEX', backlog, from, to, 'LIMIT', 0, 2)
    local tenant = heads[1] and (string.byte(flow) == 61 and flow or tenant_of(heads[1])) -- =
    if not tenant then
      redis.call('ZREM', active, flow) -- its messages were cancelled
      progress, skipped = true, skipped + 1
    elseif consumes and not may_start(tenant) then
      block(flow, tenant)
      progress, skipped = true, skipped + 1
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
    for _, body in ipairs(redis.call('HMGET', messages, unpack(ids))) do
      local one = picked[at]
      local deadline = body and string.byte(body) ~= 58 and tonumber(string.match(body, '^(%d+):')) -- :
      if deadline and deadline <= now then
        redis.call('ZADD', prefix .. 'deadlines', deadline, one.id) -- it left when the message was set aside
        due, room = true, 0 -- whoever does what is due removes it
        break
      end
      at = at + 1
      gone[#gone + 1] = one.member
      if not body then
        lost = lost + 1
        if consumes then
          finish(one.tenant)
        end
      else
        local made = #one.member > #one.flow + 18 and tonumber(string.match(one.member, '^;(%d+)', #one.flow + 19) or 0) or 0
        local receipt = (deadline and mortal or kind) .. one.id .. stamp .. made + 1 .. ':' .. one.member
        flying[#flying + 1] = now + ARGV[3]
        flying[#flying + 1] = receipt
        receipts[#receipts + 1] = receipt
        reply[#reply + 1] = receipt
        reply[#reply + 1] = body
        virtual, room = math.max(virtual, one.virtual), room - #body
        largest = #receipts == 1 and math.max(64, #body) or math.max(largest, #body)
        if one.next_at then
          turns[#turns + 1] = one.next_at
          turns[#turns + 1] = one.flow
        else
          idle[#idle + 1] = one.flow
        end
        seen(one.tenant)
      end
    end
  end
  for i = at, #picked do
    if consumes then
      finish(picked[i].tenant)
    end
  end
  if #flying > 0 then
    redis.call('ZADD', flight, unpack(flying))
  end
  if #gone > 0 then
    redis.call('ZREM', backlog, unpack(gone))
  end
  if #turns > 0 then
    redis.call('ZADD', active, unpack(turns))
  end
  if #idle > 0 then
    redis.call('ZREM', active, unpack(idle))
  end
end

if max > 0 and not paused then
  if redis.call('ZCARD', blocked) > 1 then
    unblock(consumes and n.capacity - n.busy, max + 10)
    if consumes and last_tenant then
      recheck(last_tenant)
    end
  end
  local progress = true
  while progress and #receipts < max and lost < 1000 and skipped < 1000 and room > 0 do
    local before, picked = #receipts + lost, nil
    picked, progress = pick(max - #receipts)
    deliver(picked)
    progress = progress or #receipts + lost > before
  end
  n.delivered = n.delivered + #receipts
  due = due or #receipts == 0 and (skipped >= 1000 or lost >= 1000)
  count('lost', lost)
  if #receipts == 0 and not (redis.call('ZSCORE', backlog, '') and redis.call('ZSCORE', active, '') and redis.call('ZSCORE', blocked, '') and
    redis.call('ZSCORE', flight, '') and redis.call('ZSCORE', prefix .. 'delayed', '') and redis.call('HEXISTS', messages, '') == 1) then
    return redis.error_reply('BROKEN a key is missing')
  end
  if #receipts == 0 then
    reply[4] = next_due()
  end
end
if ARGV[5] == '1' and #receipts == 0 and not due then
  n.sleepers = n.sleepers + 1
end
if due then
  reply[3], n.looked = '1', 0
end
wake(freed - #receipts) -- for others whose handlers are free
book()
save()
answer(verdicts .. ' ' .. table.concat(receipts, '\1\1'))
return reply
