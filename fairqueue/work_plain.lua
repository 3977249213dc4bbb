-- fairqueue.work_plain(K) kind max visibility enter random {receipt owner took} ... -> {...}
--
-- Acknowledges deliveries and takes messages that are plain: delivered for the first time, without
-- a deadline, of tenants that nothing holds. It is the short form of work, which does all else, and
-- knows the queue by one hash: see record. The choice of the next message is that of the fragment
-- next.
--
-- Needs    clock, ticket
-- Touches  hot, active, backlog, young, flight
-- KEYS[1]  K
-- ARGV[1]  kind: 'c' to take messages for handlers of Consume, 'r' for others
-- ARGV[2]  max: how many messages, at most 100, 0 for none; fewer if they have more than 1 MiB
-- ARGV[3]  visibility in milliseconds, 10,000 at least
-- ARGV[4]  enter: '1' from a reader that sleeps if nothing more is there
-- ARGV[5]  random: eight letters for the receipts
-- ARGV     for each delivery, at most 100: its receipt; the field of its owner, 'o=TENANT'; how many
--          milliseconds its handler took, '' for as long as it was in flight
-- Reply    'general' if it takes work: nothing was changed; 'new' if the lane is new; else {the clock
--          in microseconds, 16 digits; '1' if something is due, '2' if the next call should be
--          work, '4' if the reader was noted as one that sleeps, else '0'; how many milliseconds until something is due; a digit for each receipt, 1 if
--          it was good, else 0; then the messages as work gives them}
-- Cost     O(log N) a message
-- Repeat   harmless: the lane knows the answer; a message that is no longer in flight is left out
local hot, kind, max = prefix .. 'hot', ARGV[1], ARGV[2] + 0
local instant = clock[1] .. string.rep('0', 6 - #clock[2]) .. clock[2]
local asks = {}
for i = 6, #ARGV, 3 do
  asks[i - 5], asks[i - 4], asks[i - 3] = ARGV[i], ARGV[i + 1], string.sub(ARGV[i + 1], 2)
end
local found = redis.call('HMGET', hot, 't', 'l' .. lane, unpack(asks))
local last_answer = found[2]
if not last_answer or #ticket ~= 27 then
  return 'new'
elseif #(found[1] or '') < 120 then
  return 'general' -- which says what is wrong
elseif string.sub(last_answer, 1, 16) >= string.sub(ticket, 1, 16) then
  if string.sub(last_answer, 1, 27) ~= ticket then
    return redis.error_reply('LANE the lane is at ' .. string.sub(last_answer, 1, 16))
  end
  local known, unfinished, receipts = string.match(last_answer, '^(%d*) (%d)(.*)$', 38)
  local reply = {instant, unfinished, '0', known}
  for receipt in string.gmatch(receipts, string.rep('.', 24)) do
    local again = redis.call('HMGET', hot, receipt, string.sub(receipt, 1, 16))
    if again[1] and again[2] then
      reply[#reply + 1] = receipt .. '0000' .. again[2]
    end
  end
  return reply
end
local virtual, flags, delivered, acked, flying, busy, capacity, due_next, least, since, others, _, cancelled, held_back, removed =
  struct.unpack('<ddddddddddddddd', found[1])
local tenant = string.sub(found[1], 121)
if flags % 16 ~= 0 and (flags % 16 ~= 8 or kind ~= 'c' or capacity == 0) or cancelled > 0 and #found > 2 or kind ~= 'c' and held_back > 0 then
  return 'general' -- it is paused, has streams, limits that concern all, or blocked flows that Read takes
end

-- Acknowledge.
local counts, means, waits, gone, flown, verdicts, settled = {}, {}, {}, {}, {}, '', {}
for i = 3, #found, 3 do
  local receipt, owner, held, state = ARGV[i + 3], ARGV[i + 4], found[i], found[i + 1]
  if not held or settled[receipt] then
    verdicts = verdicts .. '0'
  else
    local was, place, _, tail = string.byte(held, 30, 33)
    if tail ~= 46 or was ~= 99 and was ~= 114 then -- . c r
      return 'general' -- it was delivered before, has a deadline, or is counted for limits
    elseif was == 99 then
      if owner ~= 'o' .. string.sub(held, 34) or not state or #state > 16 then
        return 'general' -- flows of its owner are blocked
      elseif not counts[owner] then
        counts[owner], means[owner] = struct.unpack('<dd', state)
        waits[owner] = found[i + 2]
      end
      local took = ARGV[i + 5] == '' and (micros - string.sub(held, 1, 16)) / 1000 or ARGV[i + 5] + 0
      took = took > 0 and took - took % 1 or 0
      if means[owner] >= 0 then
        took = (3 * means[owner] + took) / 4
        took = took - took % 1
      end
      counts[owner], means[owner], busy = counts[owner] > 0 and counts[owner] - 1 or 0, took, busy > 0 and busy - 1 or 0
    end
    settled[receipt], gone[#gone + 1], gone[#gone + 2] = true, receipt, string.sub(receipt, 1, 16)
    if place == 102 then -- f
      flown[#flown + 1] = receipt
    end
    verdicts, acked, removed, flying = verdicts .. '1', acked + 1, removed + 1, flying - 1
  end
end
if capacity - busy > least then
  return 'general' -- a blocked flow may start
end
local due = '0'
if now >= due_next or flying > 0 and due_next > now + 10000 then
  if flags > 15 then
    return 'general' -- a tenant's sleep may be over
  end
  due, due_next = '1', now + 100
end

-- Take messages. turns are flows as active had them, all whether it has no others; line are those that
-- had a turn in this call, by their next one. back are the tags of flows that stay active, also of
-- those that were passed over, because their tenant may not start another message.
if max > 0 then -- a key of another type ends the script here
  redis.call('LLEN', prefix .. 'young')
  redis.call('ZCARD', prefix .. 'backlog')
end
if #flown > 0 then
  redis.call('ZREM', prefix .. 'flight', unpack(flown))
end
local turns, all, back, tags, records, passed = {}, max == 0, {}, {}, {}, 0
local consumes, line, first, at, stop = kind == 'c' and capacity > 0, {}, 1, 1, false
local bodies, room, page, receipts, items, fields = {}, 1048576, 8, {}, {}, {}
local start = instant .. string.format('%d', now + ARGV[3]) .. (consumes and 'c' or 'r') .. '.'
while #receipts < max and room > 0 do
  if not turns[at] and not all then
    local most = redis.call('ZCARD', prefix .. 'active') - 1 -- not the last placeholder: where a slot moves, no key may be without members
    all = most <= max - #receipts
    local more, names = redis.call('ZPOPMIN', prefix .. 'active', all and most or max - #receipts), {} -- the first write: a full server does not refuse it
    for i = 1, #more, 2 do
      back[more[i]] = more[i + 1]
      if more[i] ~= '' then
        turns[#turns + 1], turns[#turns + 2] = more[i], more[i + 1]
        names[#names + 1], names[#names + 2] = more[i], 'o' .. more[i]
      end
    end
    if #names > 0 then
      for i, value in ipairs(redis.call('HMGET', hot, unpack(names))) do
        records[names[i]] = value
      end
    end
  end
  local flow, tag, again = turns[at], tonumber(turns[at + 1]), line[first]
  if again and (not flow or tags[again] < tag or tags[again] == tag and again < flow) then
    flow, tag, first = again, tags[again], first + 1
  elseif not flow then
    break
  else
    at, again = at + 2, nil
  end
  local owner, record = 'o' .. flow, records[flow]
  local state = records[owner]
  if not record or state and #state > 16 or string.byte(record, 20) ~= 46 then -- .
    stop = true
    break
  end
  if consumes and not counts[owner] then
    counts[owner], means[owner] = 0, -1
    if state then
      counts[owner], means[owner] = struct.unpack('<dd', state)
    end
  end
  local id = string.sub(record, 4, 19)
  local passes = consumes and not (counts[owner] == 0 or counts[owner] < capacity - busy or means[owner] >= 0 and means[owner] <= 20)
  if not passes and bodies[id] == nil then
    local ids = {id}
    for i = again and #turns or at, #turns, 2 do -- those that probably come next
      local other = records[turns[i]]
      if other and #ids < page then
        ids[#ids + 1] = string.sub(other, 4, 19)
      end
    end
    for i, body in ipairs(redis.call('HMGET', hot, unpack(ids))) do
      bodies[ids[i]] = body
    end
  end
  local body = bodies[id]
  if passes and passed < 16 then
    passed = passed + 1
  elseif not body or string.byte(body) ~= 58 then -- :
    stop = true -- it was lost, has a deadline, or too many tenants may not start another message
    break
  else
    if consumes then
      counts[owner], busy = counts[owner] + 1, busy + 1
    end
    if flow ~= tenant then
      others, tenant = since, flow
    end
    virtual, since, room = tag > virtual and tag or virtual, now, room - #body
    page = math.floor(room / (page > 8 and 1048576 / page or #body > 64 and #body or 64))
    page = page > 100 and 100 or page < 1 and 1 or page
    local receipt = id .. ARGV[5]
    receipts[#receipts + 1], items[#items + 1] = receipt, receipt .. '0000' .. body
    fields[#fields + 1], fields[#fields + 2] = receipt, start .. string.sub(record, 3, 3) .. '.' .. flow
    if #record > 20 then
      record = string.char(string.byte(record) - 1) .. string.sub(record, 2, 2) .. string.sub(record, 21)
    elseif string.byte(record) > 96 then
      local list = redis.call('ZRANGEBYLEX', prefix .. 'backlog', '[' .. flow .. '\1', '(' .. flow .. '\2', 'LIMIT', '0', '17')
      local more, skip = list[17], #flow + 2
      list[17] = nil
      redis.call('ZREM', prefix .. 'backlog', unpack(list))
      for i = 1, #list do
        list[i] = string.sub(list[i], skip)
      end
      record = string.char((more and 97 or 65) + #list) .. string.sub(list[#list], 1, 1) .. table.concat(list)
    else
      record = false
    end
    records[flow], back[flow], tags[flow] = record, record and virtual + 1000 or nil, virtual + 1000
    if record then -- its next turn is after those of other flows
      local place = #line + 1
      while place > first and (tags[line[place - 1]] > tags[flow] or tags[line[place - 1]] == tags[flow] and line[place - 1] > flow) do
        line[place], place = line[place - 1], place - 1
      end
      line[place] = flow
    end
  end
end
if (passed > 0 or held_back > 0) and #receipts < max and room > 0 then
  stop = true -- work notes that they wait for a handler; perhaps a tenant whose flow is blocked is alone now
end

-- Store it.
local turned = {}
for flow, tag in pairs(back) do
  turned[#turned + 1] = tags[flow] and string.format('%d', tag) or tag
  turned[#turned + 1] = flow
end
if #turned > 0 then
  redis.call('ZADD', prefix .. 'active', unpack(turned))
end
for flow in pairs(tags) do
  if records[flow] then
    fields[#fields + 1], fields[#fields + 2] = flow, records[flow]
  else
    gone[#gone + 1] = flow
    if not consumes and records['o' .. flow] and struct.unpack('<d', records['o' .. flow]) == 0 then
      gone[#gone + 1] = 'o' .. flow
    end
  end
end
for owner, count in pairs(counts) do
  local record = records[string.sub(owner, 2)]
  if count > 0 or record or record == nil and waits[owner] then -- its mean is remembered while messages wait
    fields[#fields + 1], fields[#fields + 2] = owner, struct.pack('<dd', count, means[owner])
  else
    gone[#gone + 1] = owner
  end
end
if #gone == 0 and max == 0 then
  gone[1] = 'none' -- the first write: see above
end
if #gone > 0 then
  redis.call('HDEL', hot, unpack(gone))
end
if #receipts > 0 then
  flying, delivered = flying + #receipts, delivered + #receipts
  local look = redis.call('RPUSH', prefix .. 'young', unpack(receipts)) > 1000 + 2 * flying and now + 100 or now + 10000
  due_next = look < due_next and look or due_next
end
if ARGV[4] == '1' and #receipts < max and room > 0 and due == '0' and not stop then
  due = '4'
  local w = redis.call('HGET', hot, 'w')
  local written, sleepers = struct.unpack('<dd', w)
  fields[#fields + 1], fields[#fields + 2] = 'w', struct.pack('<dd', written, sleepers + 1) .. string.sub(w, 17)
end
due = stop and '2' or due
local answer = verdicts .. ' ' .. due .. table.concat(receipts)
redis.call('HSET', hot, 'l' .. lane, ticket .. clock[1] .. answer, 't', struct.pack('<ddddddddddddddd', virtual, flags, delivered, acked, flying,
  busy, capacity, due_next, least, since, others, now, cancelled, held_back, removed) .. tenant, unpack(fields))
local pause = due_next - now
return {instant, due, string.format('%d', pause < 0 and 0 or pause > 1e9 and 1e9 or pause), verdicts, unpack(items)}
