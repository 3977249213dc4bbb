-- fairqueue.work(K) how max visibility slept sleep random [receipt ...] -> {...}
--
-- Acknowledges deliveries, and then takes messages: the head of the flow whose turn it is,
-- and so on. It does not do what is due, but says at most every 100 ms that something is.
--
-- Needs    record, turns, wake, lane
-- Touches  flight, delayed, deadlines
-- KEYS[1]  K
-- ARGV[1]  how: 'c' to take messages for handlers of Consume, 'r' for others
-- ARGV[2]  max: how many messages, at most 150; fewer if they are more than 1 MiB
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
local flight = prefix .. 'flight'
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
local consumes, max = ARGV[1] == 'c' and n.capacity > 0, paused and 0 or tonumber(ARGV[2])
local turns = max > 0 and redis.call('ZRANGE', active, 0, max - 1, 'WITHSCORES')
if turns and (turns[1] or '') == '' then -- there is time for it
  local missing = broken()
  if missing then
    return missing
  end
end

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
redis.call('HLEN', messages) -- what is something else ends the script here

local verdicts = {}
if #ARGV == 6 then
  redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
else
  local gone, ids, receipts = {}, {}, {unpack(ARGV, 7)}
  for i, visible in ipairs(redis.call('ZMSCORE', flight, unpack(receipts))) do
    local receipt = receipts[i]
    verdicts[i] = 0
    if visible and not gone[receipt] then
      local id = string.sub(receipt, 2, 17)
      gone[#gone + 1], gone[receipt] = receipt, true
      if n.cancelled > 0 and redis.call('HEXISTS', messages, id) == 0 then
        n.cancelled = n.cancelled - 1
      else
        ids[#ids + 1], verdicts[i] = id, 1
      end
    end
  end
  redis.call('ZREM', flight, '-', unpack(gone)) -- a full server does not refuse it, nor then what follows
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

if ARGV[4] == '1' and n.sleepers > 0 then
  n.sleepers = n.sleepers - 1
end

local reply, receipts, lost, skipped, room, largest = {now, paused and '1' or '0', '0', -1, verdicts}, {}, 0, 0, 1048576, 131072
local visible, kind, mortal = whole(now + ARGV[3]), consumes and 'c' or 'r', consumes and 'C' or 'R'
local stamp = string.format('%013d', now) .. ARGV[6]

-- Puts the messages whose turn it is in a list, at most so many: their flows, members,
-- tenants, the virtual times of their turns, and those of the flows' next turns.
local flows, members, tenants, times, nexts
local function pick(most)
  flows, members, tenants, times, nexts = {}, {}, {}, {}, {}
  local line, first, before, horizon, page = {}, 1, virtual, math.huge, 2
  for i = 1, #turns - 1, 2 do
    if turns[i] ~= '' then
      line[#line + 1] = {name = turns[i], at = tonumber(turns[i + 1]), page = false, next = 1, cost = false}
    end
  end
  if #line == most then
    horizon = line[most].at -- flows behind it have not been looked at
  end
  if #line > 0 then
    page = math.ceil(most / #line) + 1
  end
  if consumes and #line > 1 and string.byte(line[1].name) == 61 then -- =
    local names = {}
    for i, flow in ipairs(line) do
      names[i] = flow.name
    end
    know(names)
  end
  local function head(flow)
    if not flow.page or flow.next > page then
      local from = flow.page and '(' .. flow.page[page] or '[' .. flow.name .. '\1'
      flow.page, flow.next = redis.call('ZRANGEBYLEX', backlog, from, '(' .. flow.name .. '\2', 'LIMIT', 0, page), 1
    end
    return flow.page[flow.next]
  end
  while #flows < most and line[first] and line[first].at <= horizon do
    local flow = line[first]
    local member = head(flow)
    local tenant = member and (string.byte(flow.name) == 61 and flow.name or tenant_of(member)) -- =
    first = first + 1
    if not tenant then
      redis.call('ZREM', active, flow.name) -- its messages were cancelled
      skipped = skipped + 1
    elseif consumes and not may_start(tenant) then
      block(flow.name, tenant)
      skipped = skipped + 1
    else
      if consumes then
        begin(tenant)
      end
      virtual = math.max(virtual, flow.at)
      flow.cost, flow.next = flow.cost or cost(flow.name), flow.next + 1
      local i, more = #flows + 1, head(flow)
      flows[i], members[i], tenants[i], times[i], nexts[i] = flow.name, member, tenant, virtual, more and virtual + flow.cost or false
      if more then
        flow.at = virtual + flow.cost
        local place = #line + 1
        local ahead = line[place - 1]
        while place > first and (ahead.at > flow.at or ahead.at == flow.at and ahead.name > flow.name) do
          line[place], place = ahead, place - 1
          ahead = line[place - 1]
        end
        line[place] = flow
      end
    end
  end
  virtual = before
end

-- Delivers what was picked, as far as there is room.
local function deliver()
  local gone, flying, after, at = {}, {}, {}, 0
  while at < #flows and room > 0 do
    local ids = {}
    for i = at + 1, math.min(#flows, at + math.max(1, math.floor(room / largest))) do
      ids[#ids + 1] = string.sub(members[i], #flows[i] + 3, #flows[i] + 18)
    end
    for slice, body in ipairs(redis.call('HMGET', messages, unpack(ids))) do
      if room <= 0 then
        break
      end
      local i = at + 1
      local deadline = body and string.byte(body) ~= 58 and tonumber(string.match(body, '^(%d+):')) -- :
      if deadline and deadline <= now then
        redis.call('ZADD', prefix .. 'deadlines', deadline, ids[slice]) -- it left when the message was set aside
        due, room = true, 0 -- whoever does what is due removes it
        break
      end
      local flow, member = flows[i], members[i]
      at, gone[i], after[flow] = i, member, nexts[i]
      if body then
        local made = #member > #flow + 18 and tonumber(string.match(member, '^;(%d+)', #flow + 19)) or 0
        local receipt = (deadline and mortal or kind) .. ids[slice] .. stamp .. (made == 0 and '1:' or made + 1 .. ':') .. member
        flying[#flying + 1] = visible
        flying[#flying + 1] = receipt
        receipts[#receipts + 1] = receipt
        reply[#reply + 1] = receipt
        reply[#reply + 1] = body
        virtual, room = math.max(virtual, times[i]), room - #body
        largest = #receipts == 1 and math.max(64, #body) or math.max(largest, #body)
        seen(tenants[i])
      else
        lost = lost + 1
        if consumes then
          finish(tenants[i])
        end
      end
    end
  end
  if consumes then
    for i = at + 1, #flows do
      finish(tenants[i])
    end
  end
  if #flying > 0 then
    redis.call('ZADD', flight, unpack(flying))
  end
  if #gone > 0 then
    redis.call('ZREM', backlog, unpack(gone))
  end
  local waiting, idle = {}, {}
  for flow, turn in pairs(after) do
    if turn then
      waiting[#waiting + 1] = whole(turn)
      waiting[#waiting + 1] = flow
    else
      idle[#idle + 1] = flow
    end
  end
  if #waiting > 0 then
    redis.call('ZADD', active, 'XX', unpack(waiting)) -- a flow that is blocked has none
  end
  if #idle > 0 then
    redis.call('ZREM', active, unpack(idle))
  end
end

if turns then
  if redis.call('ZCARD', blocked) > 1 then
    unblock(consumes and n.capacity - n.busy, max + 10)
    if consumes and last_tenant then
      recheck(last_tenant)
    end
  end
  if freed > 0 then
    turns = redis.call('ZRANGE', active, 0, max - 1, 'WITHSCORES')
  end
  while turns do
    local before = skipped + lost
    pick(max - #receipts)
    deliver()
    local more = skipped + lost > before and skipped + lost < 250 and #receipts < max and room > 0
    turns = more and redis.call('ZRANGE', active, 0, max - #receipts - 1, 'WITHSCORES')
  end
  n.delivered = n.delivered + #receipts
  due = due or #receipts == 0 and skipped + lost >= 250
  count('lost', lost)
  local missing = #receipts == 0 and skipped + lost > 0 and broken()
  if missing then
    return missing
  elseif #receipts == 0 then
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
