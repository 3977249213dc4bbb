-- fairqueue.work(K) kind max visibility leave enter random [receipt ...] -> {...}
--
-- Acknowledges deliveries, and then takes messages: the head of the flow whose turn it is, and so
-- on. Every 100 ms it checks whether something is due, and says so, but does not do it.
--
-- Needs    record, turns, wake, lane
-- Touches  flight, delayed, deadlines
-- KEYS[1]  K
-- ARGV[1]  kind: 'c' to take messages for handlers of Consume, 'r' for others
-- ARGV[2]  max: how many messages, at most 100; fewer if they have more than 1 MiB
-- ARGV[3]  visibility: after how many milliseconds they come again
-- ARGV[4]  leave: '1' from a reader that slept and was not woken by a token
-- ARGV[5]  enter: '1' from a reader that sleeps if nothing is there
-- ARGV[6]  random: eight letters for the receipts
-- ARGV     receipts of what was handled, at most 100
-- Reply    nil without a queue, else {the server's clock; '1' if reading is paused, else '0';
--          '1' if something is due; milliseconds until something is due, or -1; a digit for
--          each receipt: 0 for a stale one, else 1; then receipt, body ...}
-- Cost     O(log N) a message
-- Repeat   harmless: the lane knows the answer; what is no longer in flight is left out
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
if turns and (turns[1] or '') == '' then -- there is time to check
  local missing = broken()
  if missing then
    return missing
  end
end

-- Milliseconds until something is visible again or its delay has passed, or -1.
local function next_due()
  local soonest = math.min(tonumber(redis.call('ZRANGE', flight, 0, 0, 'WITHSCORES')[2]) or math.huge,
    tonumber(redis.call('ZRANGE', prefix .. 'delayed', 0, 0, 'WITHSCORES')[2]) or math.huge)
  return soonest < math.huge and math.max(0, soonest - now) or -1
end

local due = false
if now - n.checked >= 100 or now < n.checked then
  n.checked = now
  due = next_due() == 0 or (tonumber(redis.call('ZRANGE', prefix .. 'deadlines', 0, 0, 'WITHSCORES')[2]) or math.huge) <= now
end
redis.call('HLEN', messages) -- a key of another type ends the script here

local verdicts = {}
if #ARGV == 6 then
  redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
else
  local settled, ids, receipts = {}, {}, {unpack(ARGV, 7)}
  for i, visible in ipairs(redis.call('ZMSCORE', flight, unpack(receipts))) do
    local receipt = receipts[i]
    verdicts[i] = 0
    if visible and not settled[receipt] then
      local id = string.sub(receipt, 2, 17)
      settled[#settled + 1], settled[receipt] = receipt, true
      if n.cancelled > 0 and redis.call('HEXISTS', messages, id) == 0 then
        n.cancelled = n.cancelled - 1
      else
        ids[#ids + 1], verdicts[i] = id, 1
      end
    end
  end
  redis.call('ZREM', flight, '-', unpack(settled)) -- a full server does not refuse it, nor then what follows
  for _, receipt in ipairs(settled) do
    local kind = string.byte(receipt)
    if kind == 67 or kind == 82 then -- C, R
      redis.call('ZREM', prefix .. 'deadlines', string.sub(receipt, 2, 17))
    end
    end_delivery(receipt, true)
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
local visible, stamp = whole(now + ARGV[3]), string.format('%013d', now) .. ARGV[6]
local kind, expiring_kind = consumes and 'c' or 'r', consumes and 'C' or 'R'

-- Returns the messages whose turn it is, in order, at most so many.
local function pick(most)
  local picks, line, first, time, horizon = {}, {}, 1, virtual, math.huge
  for i = 1, #turns - 1, 2 do
    if turns[i] ~= '' then
      line[#line + 1] = {name = turns[i], at = tonumber(turns[i + 1]), page = false, next = 1}
    end
  end
  if #line == most then
    horizon = line[most].at -- the tags of flows behind it are unknown
  end
  local page = math.ceil(most / math.max(1, #line)) + 1
  if consumes and #line > 1 and string.byte(line[1].name) == 61 then -- =
    local names = {}
    for i, flow in ipairs(line) do
      names[i] = flow.name
    end
    load_states(names)
  end
  local function head(flow)
    if not flow.page or flow.next > page then
      local from = flow.page and '(' .. flow.page[page] or '[' .. flow.name .. '\1'
      flow.page, flow.next = redis.call('ZRANGEBYLEX', backlog, from, '(' .. flow.name .. '\2', 'LIMIT', 0, page), 1
    end
    return flow.page[flow.next]
  end
  while #picks < most and line[first] and line[first].at <= horizon do
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
        incr_flight(tenant)
      end
      time = math.max(time, flow.at)
      flow.next = flow.next + 1
      flow.turn = flow.turn or turn(flow.name)
      local more = head(flow) ~= nil
      picks[#picks + 1] = {flow = flow.name, member = member, tenant = tenant, at = time, next = more and time + flow.turn}
      if more then -- its next turn is after those of other flows
        flow.at = time + flow.turn
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
  return picks
end

-- Delivers picked messages, as far as there is room.
local function deliver(picks)
  local taken, flying, nexts, at = {}, {}, {}, 0
  while at < #picks and room > 0 do
    local ids = {}
    for i = at + 1, math.min(#picks, at + math.max(1, math.floor(room / largest))) do
      ids[#ids + 1] = string.sub(picks[i].member, #picks[i].flow + 3, #picks[i].flow + 18)
    end
    for slice, body in ipairs(redis.call('HMGET', messages, unpack(ids))) do
      if room <= 0 then
        break
      end
      local deadline = body and string.byte(body) ~= 58 and tonumber(string.match(body, '^(%d+):')) -- :
      if deadline and deadline <= now then
        redis.call('ZADD', prefix .. 'deadlines', deadline, ids[slice]) -- it is not there while the message is delayed
        due, room = true, 0 -- run_due removes the message
        break
      end
      at = at + 1
      local picked = picks[at]
      local flow, member = picked.flow, picked.member
      taken[at], nexts[flow] = member, picked.next
      if body then
        local made = #member > #flow + 18 and tonumber(string.match(member, '^;(%d+)', #flow + 19)) or 0
        local receipt = (deadline and expiring_kind or kind) .. ids[slice] .. stamp .. whole(made + 1) .. ':' .. member
        flying[#flying + 1] = visible
        flying[#flying + 1] = receipt
        receipts[#receipts + 1] = receipt
        reply[#reply + 1] = receipt
        reply[#reply + 1] = body
        virtual, room = math.max(virtual, picked.at), room - #body
        largest = #receipts == 1 and math.max(64, #body) or math.max(largest, #body)
        note(picked.tenant)
      else
        lost = lost + 1
        if consumes then
          decr_flight(picked.tenant)
        end
      end
    end
  end
  if consumes then
    for i = at + 1, #picks do
      decr_flight(picks[i].tenant)
    end
  end
  if #flying > 0 then
    redis.call('ZADD', flight, unpack(flying))
  end
  if #taken > 0 then
    redis.call('ZREM', backlog, unpack(taken))
  end
  local waiting, idle = {}, {}
  for flow, next_turn in pairs(nexts) do
    if next_turn then
      waiting[#waiting + 1] = whole(next_turn)
      waiting[#waiting + 1] = flow
    else
      idle[#idle + 1] = flow
    end
  end
  if #waiting > 0 then
    redis.call('ZADD', active, 'XX', unpack(waiting)) -- a flow that is blocked is not active
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
    deliver(pick(max - #receipts))
    local more = skipped + lost > before and skipped + lost < 100 and #receipts < max and room > 0
    turns = more and redis.call('ZRANGE', active, 0, max - #receipts - 1, 'WITHSCORES')
  end
  n.delivered = n.delivered + #receipts
  due = due or #receipts == 0 and skipped + lost >= 100
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
  reply[3], n.checked = '1', 0
end
if lost > 0 then
  count('lost', lost)
end
wake(freed - #receipts) -- for readers whose handlers are free
save_states()
save()
answer(verdicts .. ' ' .. table.concat(receipts, '\1\1'))
return reply
