-- fairqueue.work(K) kind max visibility leave enter random [receipt ...] -> {...}
--
-- Acknowledges deliveries, and then takes messages: the head of the flow whose turn it is, and so
-- on. Every 100 ms it checks whether something is due, and says so, but does not do it.
--
-- Needs    record, turns, wake, lane
-- Touches  flight, delayed, deadlines, ticks
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
local consumes, max = ARGV[1] == 'c' and n.capacity ~= '0', paused and 0 or tonumber(ARGV[2])
local turns = max > 0 and redis.call('ZRANGE', active, '0', ARGV[2], 'WITHSCORES') -- one more, to know what comes behind
if turns and (turns[1] or '') == '' then -- there is time to check
  local missing = broken()
  if missing then
    return missing
  end
end

-- The lowest score of a sorted set.
local function soonest(set)
  return tonumber(redis.call('ZRANGE', set, '0', '0', 'WITHSCORES')[2]) or math.huge
end

local due = false
if math.abs(now - n.checked) >= 100 then
  n.checked = instant
  due = math.min(soonest(flight), soonest(prefix .. 'delayed'), soonest(prefix .. 'deadlines'), soonest(prefix .. 'ticks')) <= now
end

local verdicts = {}
if #ARGV == 6 then
  redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
else
  local settled, ids, expiring, receipts = {}, {}, {}, {unpack(ARGV, 7)}
  for i, visible in ipairs(redis.call('ZMSCORE', flight, unpack(receipts))) do
    local receipt = receipts[i]
    verdicts[i] = 0
    if visible and not settled[receipt] then
      local id, kind = string.sub(receipt, 2, 17), string.byte(receipt)
      settled[#settled + 1], settled[receipt] = receipt, true
      if kind == 67 or kind == 82 then -- C, R
        expiring[#expiring + 1] = id
      end
      if n.cancelled ~= '0' and redis.call('HEXISTS', messages, id) == 0 then
        n.cancelled = math.max(0, n.cancelled - 1)
      else
        ids[#ids + 1], verdicts[i] = id, 1
      end
    end
  end
  if #expiring > 0 then
    redis.call('ZCARD', prefix .. 'deadlines') -- a key of another type ends the script here
  end
  local gone = redis.call('HDEL', messages, '-', unpack(ids)) -- a full server does not refuse it, nor then what follows
  n.acked = whole(n.acked + gone)
  if #expiring > 0 then
    redis.call('ZREM', prefix .. 'deadlines', unpack(expiring))
  end
  if #settled > 0 then
    redis.call('ZREM', flight, unpack(settled))
  end
  if tracked then
    for _, receipt in ipairs(settled) do
      end_delivery(receipt, true)
    end
  end
end
verdicts = table.concat(verdicts)

if ARGV[4] == '1' and n.sleepers ~= '0' then
  n.sleepers = n.sleepers - 1
end
if turns and n.blocked ~= '0' then
  unblock(consumes and n.capacity - n.busy, max + 10)
  if freed > 0 then
    turns = redis.call('ZRANGE', active, '0', ARGV[2], 'WITHSCORES')
  end
end

local reply, receipts, lost, skipped, room, largest = {now, paused and '1' or '0', '0', -1, verdicts}, {}, 0, 0, 1048576, 131072
local visible, stamp = whole(now + ARGV[3]), instant .. ARGV[6]
local kind, expiring_kind = consumes and 'c' or 'r', consumes and 'C' or 'R'
local reads = turns

while turns do
  -- Pick the messages whose turn it is, in order. fetched are flows as active has them; line are
  -- those that had a turn in this call, by their next one.
  local members, flows, tenants, tags, nexts, line = {}, {}, {}, {}, {}, {}
  local before, most, virtual, first, fetched = skipped + lost, max - #receipts, tonumber(n.virtual), 1, 1
  local page = math.ceil(most / math.max(1, #turns / 2)) + 1
  local page_text = whole(page)
  if consumes and streams == '' then
    local names = {}
    for i = 1, #turns, 2 do
      names[#names + 1] = turns[i]
    end
    load_states(names)
  end
  while #members < most do
    local name, flow = turns[fetched], line[first]
    local tag = tonumber(turns[fetched + 1]) or math.huge
    if name and flow and (flow.tag < tag or flow.tag == tag and flow.name < name) then
      first = first + 1
    elseif (name or '') ~= '' then
      flow = {name = name, tag = tag, next = 1}
      flow.page = redis.call('ZRANGEBYLEX', backlog, '[' .. name .. '\1', '(' .. name .. '\2', 'LIMIT', '0', page_text)
      fetched = fetched + 2
    else
      break -- nothing waits; or flows come next of which this knows nothing
    end
    name = flow.name
    local member = flow.page[flow.next]
    local tenant = member and (string.byte(name) == 61 and name or tenant_of(member)) -- =
    if not tenant then
      redis.call('ZREM', active, name) -- its messages were cancelled
      skipped = skipped + 1
    elseif consumes and not may_start(tenant) then
      block(name, tenant)
      skipped = skipped + 1
    else
      if consumes then
        incr_flight(tenant)
      end
      virtual = math.max(virtual, flow.tag)
      local i = #members + 1
      members[i], flows[i], tenants[i], tags[i], nexts[name] = member, name, tenant, virtual, false
      flow.next = flow.next + 1
      if flow.next > page then
        flow.page, flow.next = redis.call('ZRANGEBYLEX', backlog, '(' .. member, '(' .. name .. '\2', 'LIMIT', '0', page_text), 1
      end
      if flow.page[flow.next] then -- its next turn is after those of other flows
        flow.turn = flow.turn or weights and turn(name) or 1000
        flow.tag = virtual + flow.turn
        nexts[name] = flow.tag
        local place = #line + 1
        local ahead = line[place - 1]
        while place > first and (ahead.tag > flow.tag or ahead.tag == flow.tag and ahead.name > name) do
          line[place], place = ahead, place - 1
          ahead = line[place - 1]
        end
        line[place] = flow
      end
    end
  end

  -- Deliver them, as far as there is room.
  local flying, taken, missing = {}, 0, {}
  while taken < #members and room > 0 do
    local ids = {}
    for i = taken + 1, math.min(#members, taken + math.max(1, math.floor(room / largest))) do
      ids[#ids + 1] = string.sub(members[i], #flows[i] + 3, #flows[i] + 18)
    end
    for i, body in ipairs(redis.call('HMGET', messages, unpack(ids))) do
      if room <= 0 then
        break
      end
      local deadline = body and string.byte(body) ~= 58 and tonumber(string.match(body, '^(%d+):')) -- :
      if deadline and deadline <= now then
        redis.call('ZADD', prefix .. 'deadlines', deadline, ids[i]) -- it is not there while the message is delayed
        due, room = true, 0 -- run_due removes the message
        break
      end
      taken = taken + 1
      if body then
        local receipt = (deadline and expiring_kind or kind) .. ids[i] .. stamp .. members[taken]
        flying[#flying + 1] = visible
        flying[#flying + 1] = receipt
        receipts[#receipts + 1] = receipt
        reply[#reply + 1] = receipt
        reply[#reply + 1] = body
        n.virtual, room = math.max(n.virtual, tags[taken]), room - #body
        largest = #receipts == 1 and math.max(64, #body) or math.max(largest, #body)
        note(tenants[taken])
      else
        missing[#missing + 1] = tenants[taken]
      end
    end
  end
  n.virtual, lost = whole(n.virtual), lost + #missing
  for i = #members, taken + 1, -1 do -- they keep their turns
    nexts[flows[i]] = tags[i]
    missing[#missing + 1] = tenants[i]
  end
  if consumes then
    for _, tenant in ipairs(missing) do
      decr_flight(tenant)
    end
  end
  if #flying > 0 then
    redis.call('ZADD', flight, unpack(flying))
  end
  if taken > 0 then
    redis.call('ZREM', backlog, unpack(members, 1, taken))
  end
  local waiting, gone = {}, {}
  for flow, tag in pairs(nexts) do
    if tag then
      waiting[#waiting + 1] = whole(tag)
      waiting[#waiting + 1] = flow
    else
      gone[#gone + 1] = flow
    end
  end
  if #waiting > 0 then
    redis.call('ZADD', active, 'XX', unpack(waiting)) -- a flow that is blocked is not active
  end
  if #gone > 0 then
    redis.call('ZREM', active, unpack(gone))
  end
  local more = skipped + lost > before and skipped + lost < 100 and #receipts < max and room > 0
  turns = more and redis.call('ZRANGE', active, '0', whole(max - #receipts), 'WITHSCORES')
end

if #receipts > 0 then
  n.delivered = whole(n.delivered + #receipts)
elseif reads then
  local missing = skipped + lost > 0 and broken()
  if missing then
    return missing
  end
  due = due or skipped + lost >= 100
  local soon = math.min(soonest(flight), soonest(prefix .. 'delayed'), soonest(prefix .. 'ticks'))
  reply[4] = soon < math.huge and math.max(0, soon - now) or -1
end
if ARGV[5] == '1' and #receipts == 0 and not due then
  n.sleepers = n.sleepers + 1
end
if due then
  reply[3], n.checked = '1', '0'
end
if lost > 0 then
  redis.call('HINCRBY', K, 'lost', lost)
end
if freed > #receipts then
  wake(freed - #receipts) -- for readers whose handlers are free
end
if tracked then
  save_states()
end
save()
answer(verdicts .. ' ' .. table.concat(receipts, '\1\1'))
return reply
