-- fairqueue.work(K) kind max visibility leave enter random [receipt ...] -> {...}
--
-- Acknowledges deliveries, and then takes messages: the head of the flow whose turn it is, and so
-- on. Every 100 ms it checks whether something is due, and says so, but does not do it.
--
-- Needs    record, plain, limits, turns, wake, lane
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
      if kind < 97 then -- a capital
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
    end_deliveries(settled, true)
  end
end
verdicts = table.concat(verdicts)

if ARGV[4] == '1' and n.sleepers ~= '0' then
  n.sleepers = n.sleepers - 1
end
local drowsy = false
if turns then
  if epoch then
    drowsy = rouse(max + 10)
    local over = rating and redis.call('ZRANGEBYSCORE', prefix .. 'buckets', '-inf', instant .. '999', 'LIMIT', '0', '2') or {}
    if #over > 0 then
      redis.call('ZREM', prefix .. 'buckets', unpack(over))
    end
  end
  if n.blocked ~= '0' then
    drowsy = unblock(consumes and n.capacity - n.busy, max + 10) or drowsy
  end
  if freed > 0 then
    turns = redis.call('ZRANGE', active, '0', ARGV[2], 'WITHSCORES')
  end
end

local reply, receipts, lost, skipped, room, largest = {now, paused and '1' or '0', '0', -1, verdicts}, {}, 0, 0, 1048576, 131072
local visible, stamp = whole(now + ARGV[3]), instant .. ARGV[6]
local kind = consumes and 'c' or counting and 'o' or 'r'
local counts, begins = consumes or limiting, consumes or counting or rating
local expiring_kind = string.upper(kind)
local reads = turns

while turns do
  -- Pick the messages whose turn it is, in order. fetched are flows as active has them; line are
  -- those that had a turn in this call, by their next one.
  local members, flows, tenants, tags, nexts, line = {}, {}, {}, {}, {}, {}
  local before, most, virtual, first, fetched = skipped + lost, max - #receipts, tonumber(n.virtual), 1, 1
  local page = math.ceil(most / math.max(1, #turns / 2)) + 1
  local page_text = whole(page)
  if counts and streams == '' and turns[1] ~= '' then
    local names = {}
    for i = 1, #turns, 2 do
      names[#names + 1] = turns[i] ~= '' and turns[i] or nil
    end
    if consumes or counting then
      load_states(names)
    end
    if epoch then
      load_rules(names)
    end
  end
  while #members < most do
    local name, entry = turns[fetched], line[first]
    local tag = tonumber(turns[fetched + 1]) or math.huge
    if name and entry and (entry.tag < tag or entry.tag == tag and entry.name < name) then
      first = first + 1
    elseif (name or '') ~= '' then
      entry = {name = name, tag = tag, next = 1, stream = string.byte(name) == 35} -- #
      entry.page = redis.call('ZRANGEBYLEX', backlog, '[' .. name .. '\1', '(' .. name .. '\2', 'LIMIT', '0', page_text)
      fetched = fetched + 2
    else
      break -- nothing waits; or flows come next of which this knows nothing
    end
    name = entry.name
    local member, tenant, where, score = entry.page[entry.next], name
    if member and entry.stream then
      tenant = tenant_of(member)
    end
    if member and counts then
      where, score = hindrance(tenant, consumes, entry.stream)
    end
    if where then
      hold(name, tenant, where, score)
      skipped = skipped + 1
    elseif not member then
      redis.call('ZREM', active, name) -- its messages were cancelled
      skipped = skipped + 1
    else
      if begins then
        begin_delivery(tenant, consumes)
      end
      virtual = math.max(virtual, entry.tag)
      local i = #members + 1
      members[i], flows[i], tenants[i], tags[i], nexts[name] = member, name, tenant, virtual, false
      entry.next = entry.next + 1
      if not entry.page[entry.next] and #entry.page >= page then
        entry.page, entry.next = redis.call('ZRANGEBYLEX', backlog, '(' .. member, '(' .. name .. '\2', 'LIMIT', '0', page_text), 1
      end
      local more = entry.page[entry.next]
      if more then -- its next turn is after those of other flows
        entry.turn = entry.turn or epoch and turn(name) or quantum
        entry.tag = virtual + entry.turn
        nexts[name] = entry.tag
        local place = #line + 1
        local ahead = line[place - 1]
        while place > first and (ahead.tag > entry.tag or ahead.tag == entry.tag and ahead.name > name) do
          line[place], place = ahead, place - 1
          ahead = line[place - 1]
        end
        line[place] = entry
      end
    end
  end

  -- Deliver them, as far as there is room.
  local flying, taken, missing = {}, 0, {}
  while taken < #members and room > 0 do
    local ids = {}
    for i = taken + 1, math.min(#members, taken + math.max(1, math.floor(room / largest))) do
      local at = #flows[i]
      ids[#ids + 1] = string.sub(members[i], at + 3, at + 18)
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
        missing[#missing + 1] = taken
      end
    end
  end
  n.virtual, lost = whole(n.virtual), lost + #missing
  for i = #members, taken + 1, -1 do -- they keep their turns
    nexts[flows[i]] = tags[i]
    missing[#missing + 1] = i
  end
  for _, i in ipairs(missing) do
    if begins then
      undo_delivery(tenants[i], consumes)
    end
    if i > taken and string.byte(members[i]) == 61 and epoch then -- =
      put({flows[i]}, 0)
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
    redis.call('ZADD', active, 'XX', unpack(waiting)) -- a flow that is held is not active
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
  due = due or drowsy or skipped + lost >= 100
  local soon = math.min(soonest(flight), soonest(prefix .. 'delayed'), soonest(prefix .. 'ticks'), epoch and soonest(prefix .. 'asleep') or math.huge)
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
if freed > #receipts or earlier > 0 then
  wake(math.max(earlier, freed - #receipts)) -- for readers whose handlers are free
end
if tracked then
  save_states()
end
save()
answer(verdicts .. ' ' .. table.concat(receipts, '\1\1'))
return reply
