-- fairqueue.work(K) kind max visibility leave enter random [receipt ...] -> {...}
--
-- Acknowledges deliveries, and then takes messages: the head of the flow whose turn it is, and so
-- on. Every 100 ms it checks whether something is due, and says so, but does not do it.
--
-- Needs    record, plain, limits, turns, wake, lane
-- Touches  ring, flight, delayed, deadlines, ticks
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
local kind = consumes and (counting and 'h' or 'c') or counting and 'o' or 'r'
local counts, begins = consumes or limiting, consumes or counting or rating
local expiring_kind = string.upper(kind)
local ring, reads = prefix .. 'ring', turns

local account_head
if not plain then
  -- The tenants of an account that come next, in the order of their names, from the one after
  -- the last that was served.
  local function next_tenants(unit, most)
    local last, from, to = unit.last or redis.call('HGET', prefix .. 'work', unit.name .. '\1'), unit.name .. '\1', unit.name .. '\2'
    local list = redis.call('ZRANGEBYLEX', ring, last and '(' .. from .. last or '[' .. from, '(' .. to, 'LIMIT', '0', most)
    if last and #list < most then
      for _, member in ipairs(redis.call('ZRANGEBYLEX', ring, '[' .. from, '[' .. from .. last, 'LIMIT', '0', most - #list)) do
        list[#list + 1] = member
      end
    end
    return list
  end

  -- The head of an account: the message and the flow of its next tenant that may start one.
  function account_head(unit, page, spent)
    while true do
      if not unit.ring or unit.at > #unit.ring and not unit.all then
        local list = next_tenants(unit, page)
        unit.all, unit.ring, unit.at, unit.flows = #list < page, {}, 1, unit.flows or {}
        for i, member in ipairs(list) do
          unit.ring[i] = string.sub(member, #unit.name + 2)
        end
        if #list > 0 then
          load_rules(unit.ring)
          if counting then
            load_states(unit.ring)
          end
        end
        unit.size = math.ceil(page / math.max(1, #list)) + 1
        if #list == 0 then
          return
        end
      end
      local name = unit.ring[unit.at]
      if not name then
        return
      end
      local flow = unit.flows[name]
      if not flow then
        flow = {next = 1, size = unit.size}
        flow.page = redis.call('ZRANGEBYLEX', backlog, '[' .. name .. '\1', '(' .. name .. '\2', 'LIMIT', '0', whole(flow.size))
        unit.flows[name] = flow
      end
      local member, where, score = flow.page[flow.next]
      if member and counts then
        where, score = hindrance(name, consumes)
      end
      if member and not where then
        return member, name, flow
      elseif skipped >= 100 or unit.seen[name] then -- none of the tenants may start
        return
      elseif not member and not spent[name] then
        leave(name) -- its messages were cancelled
      elseif member then
        hold(name, name, where, score)
        flow.held = true
      end
      skipped, unit.at, unit.last, unit.seen[name] = skipped + 1, unit.at + 1, name, true
    end
  end
end

while turns do
  -- Pick the messages whose turn it is, in order. fetched are units as active has them; line are
  -- those that had a turn in this call, by their next one.
  local members, flows, units, owners, tags, nexts, line, spent = {}, {}, {}, {}, {}, {}, {}, {}
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
    local name, unit = turns[fetched], line[first]
    local tag = tonumber(turns[fetched + 1]) or math.huge
    if name and unit and (unit.tag < tag or unit.tag == tag and unit.name < name) then
      first = first + 1
    elseif (name or '') ~= '' then
      unit = {name = name, tag = tag, next = 1, form = string.byte(name), seen = {}}
      if unit.form ~= 64 then -- @
        unit.page = redis.call('ZRANGEBYLEX', backlog, '[' .. name .. '\1', '(' .. name .. '\2', 'LIMIT', '0', page_text)
      end
      fetched = fetched + 2
    else
      break -- nothing waits; or units come next of which this knows nothing
    end
    name = unit.name
    local member, flow, tenant, where, score = nil, name, unit
    local owner = name
    if unit.form == 64 then -- @
      if counts then
        where, score = hindrance(name, consumes)
      end
      if not where then
        member, flow, tenant = account_head(unit, page, spent)
      end
    else
      member = unit.page[unit.next]
      if member and unit.form == 35 then -- #
        flow = tenant_of(member)
        owner = unit_of(flow)
      end
      if member and counts then
        where, score = hindrance(owner, consumes, unit.form == 35)
      end
    end
    if where then
      hold(name, owner, where, score)
      skipped = skipped + 1
    elseif not member then
      if skipped >= 100 and unit.form == 64 then
        break -- the next call goes on
      end
      leave(name) -- its messages were cancelled, or its tenants may not start
      if unit.form == 64 and forget_account then -- @
        forget_account(name)
      end
      nexts[name] = nil
      skipped = skipped + 1
    else
      if begins then
        begin_delivery(flow, consumes)
      end
      virtual = math.max(virtual, unit.tag)
      local i = #members + 1
      members[i], flows[i], units[i], owners[i], tags[i], nexts[name] = member, flow, name, owner, virtual, false
      local from = unit.form == 35 and name or flow
      tenant.next = tenant.next + 1
      if not tenant.page[tenant.next] and #tenant.page >= (tenant.size or unit.size or page) then
        tenant.page, tenant.next = redis.call('ZRANGEBYLEX', backlog, '(' .. member, '(' .. from .. '\2', 'LIMIT', '0', page_text), 1
        tenant.size = page
      end
      local more = tenant.page[tenant.next]
      if unit.form == 64 then -- @
        unit.last, unit.at, unit.seen, spent[flow] = flow, unit.at + 1, {}, not more
        if more and unit.all then
          unit.ring[#unit.ring + 1] = flow
        end
        more = unit.ring[unit.at] or not unit.all
      end
      if more then -- its next turn is after those of other units
        unit.turn = unit.turn or epoch and turn(name) or quantum
        unit.tag = virtual + unit.turn
        nexts[name] = unit.tag
        local place = #line + 1
        local ahead = line[place - 1]
        while place > first and (ahead.tag > unit.tag or ahead.tag == unit.tag and ahead.name > name) do
          line[place], place = ahead, place - 1
          ahead = line[place - 1]
        end
        line[place] = unit
      end
    end
  end

  -- Deliver them, as far as there is room.
  local flying, taken, missing = {}, 0, {}
  while taken < #members and room > 0 do
    local ids = {}
    for i = taken + 1, math.min(#members, taken + math.max(1, math.floor(room / largest))) do
      local at = #(string.byte(members[i]) == 35 and units[i] or flows[i]) -- #
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
        note(owners[taken])
      else
        missing[#missing + 1] = taken
      end
    end
  end
  n.virtual, lost = whole(n.virtual), lost + #missing
  for i = #members, taken + 1, -1 do -- they keep their turns
    nexts[units[i]], spent[flows[i]] = tags[i], false
    missing[#missing + 1] = i
  end
  for _, i in ipairs(missing) do
    if begins then
      undo_delivery(flows[i], consumes)
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
  local waiting, gone, cursors = {}, {}, {}
  for unit, tag in pairs(nexts) do
    if tag then
      waiting[#waiting + 1] = whole(tag)
      waiting[#waiting + 1] = unit
    else
      gone[#gone + 1] = unit
    end
  end
  for i = 1, taken do
    if string.byte(units[i]) == 64 then -- @
      cursors[units[i]] = flows[i]
      if spent[flows[i]] then
        redis.call('ZREM', ring, units[i] .. '\1' .. flows[i])
      end
    end
  end
  for unit, flow in pairs(cursors) do
    redis.call('HSET', prefix .. 'work', unit .. '\1', flow)
    forget_account(unit)
  end
  if #waiting > 0 then
    redis.call('ZADD', active, 'XX', unpack(waiting)) -- a unit that is held is not active
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
