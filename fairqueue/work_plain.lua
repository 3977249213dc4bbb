-- fairqueue.work_plain(K) roll max visibility {receipt} ... {owner} ... {flow} ... {took} ... -> {...}
--
-- Acknowledges deliveries and takes messages that are plain: delivered for the first time and without a deadline, of
-- tenants that have no limits but the default. It is the short form of work, which does all else, and knows the queue by
-- one hash: see record. The choice of the next message is that of the fragment next, and flows of tenants lie in blocked
-- as owners says.
--
-- Needs    clock, ticket, backlog, quick
-- Touches  hot, active, blocked, backlog, young, flight, buckets
-- Beside   wake
-- KEYS[1]  K
-- ARGV[1]  roll: with which the readers are registered, to take messages for handlers; 'r' for other readers
-- ARGV[2]  max: how many messages, at most 100, 0 for none; fewer if they have more than 1 MiB; '+' in front from a reader
--          that sleeps if nothing more is there
-- ARGV[3]  visibility in milliseconds, 10,000 at least
-- ARGV     the receipts of deliveries, at most 100; of each the field of its owner, 'o=TENANT'; of each '=TENANT'; of each how
--          many milliseconds its handler took, '' for as long as it was in flight
-- Reply    'general' if it takes work, 'register' if it takes beat first: nothing was changed; 'new' if the lane is new; else
--          HEAD, with the message behind it if it is one, or {HEAD; then the messages} if they are more, as work gives them.
--          HEAD is the clock in microseconds, 16 digits; '1' if something is due, '2' if the next call should be work, '4' if
--          the reader was noted as one that sleeps, else '0'; '9' and '5' instead of '4' and '0' if a message may wait for a
--          handler or for a limit; a digit for each receipt, 1 if it was good, else 0; and, if there are fewer messages than it
--          asked for, how many milliseconds until something is due, 10 digits
-- Cost     O(log N) a message
-- Repeat   harmless: the lane knows the answer; a message that is no longer in flight is left out
local sub, byte = string.sub, string.byte
local max, consumes, acks, hot = ARGV[2] + 0, ARGV[1] ~= 'r', (#ARGV - 3) / 4, prefix .. 'hot'
local instant = clock[1] .. (#clock[2] == 6 and clock[2] or sub('00000' .. clock[2], -6))
local found = redis.call('HMGET', hot, 't', 'l' .. lane, unpack(ARGV, 4, 3 + 3 * acks))
if not found[2] or #ticket ~= 27 then
  return 'new'
elseif #(found[1] or '') < 128 then
  return 'general' -- which reports the fault
end
local answered = replay(found[2])
if answered and answered.err then
  return answered
elseif answered then
  local known, unfinished, receipts = string.match(answered, '^(%d*) (%d)(.*)$')
  local reply = {instant .. unfinished .. known}
  for receipt in string.gmatch(receipts, string.rep('.', 24)) do
    local again = redis.call('HMGET', hot, receipt, sub(receipt, 1, 16))
    if again[1] and again[2] then
      reply[#reply + 1] = receipt .. again[2]
    end
  end
  reply[1] = reply[1] .. (#reply <= max and '0000000000' or '')
  return #reply > 2 and reply or table.concat(reply)
end
local virtual, flags, delivered, acked, flying, busy, capacity, due_next, least, since, others, used, cancelled, held_back, removed, roll =
  struct.unpack('<dddddddddddddddc8', found[1])
local tenant, counting = sub(found[1], 129), flags % 16 > 7
if consumes and max > 0 and ARGV[1] ~= roll then
  return 'register'
end
if flags % 2 == 1 or flags > 31 or cancelled > 0 and acks > 0 or held_back > 0 and not consumes and (max > 0 or capacity == 0) then
  return 'general' -- it is paused, has limits that concern all, cancelled deliveries, or blocked flows that Read takes
end
local most, share, gap, burst = 0, 0, 0, 0 -- the default limits
if flags % 4 > 1 and max > 0 then
  local default = redis.call('HGET', hot, 'd')
  if not default then
    return 'general'
  end
  most, share, gap, burst = struct.unpack('<dddd', default)
end

-- Acknowledge. states are the owners' numbers of deliveries with handlers, means, numbers of others that are counted,
-- whether messages wait, and whether the flow is blocked.
local states, settled, verdicts, gone, fields, flown, rechecks = {}, acks > 1 and {}, '', {nil, nil, nil, nil}, {'l' .. lane, '', 't', '', nil, nil, nil, nil, nil, nil}, nil, false
for i = 1, acks do
  local receipt, owner, flow, held, state = ARGV[3 + i], ARGV[3 + acks + i], ARGV[3 + 2 * acks + i], found[2 + i], found[2 + acks + i]
  if not held or settled and settled[receipt] then
    verdicts = verdicts .. '0'
  else
    local was, place, class = byte(held, 30, 32)
    if was ~= 99 and was ~= 111 and was ~= 114 then -- c o r
      return 'general' -- the message is not plain
    elseif was ~= 114 then
      local held_own = state and #state > 24
      if not state or flow ~= (class == 61 and sub(held, 32) or string.match(held, '=.*$', 33)) or owner ~= 'o' .. flow or -- =
        held_own and (flags % 4 > 1 or sub(state, 25) ~= '0' .. flow .. '\1') then
        return 'general' -- its owner has limits of its own, or its flows are blocked by others
      end
      local of_owner, took = states[owner], ARGV[3 + 3 * acks + i]
      if not of_owner then
        local count, mean, other = struct.unpack('<ddd', state)
        of_owner = {count, mean, other, found[2 + 2 * acks + i], held_own, false}
        states[owner], rechecks = of_owner, rechecks or held_own
      end
      of_owner[6] = class == 35 and string.match(held, '^#%d+', 32) -- #
      if was == 111 then -- o
        of_owner[3] = of_owner[3] > 0 and of_owner[3] - 1 or 0
      else
        took = took == '' and (micros - sub(held, 1, 16)) / 1000 or took + 0
        took = took > 0 and took - took % 1 or 0
        if of_owner[2] >= 0 then
          took = (3 * of_owner[2] + took) / 4
          took = took - took % 1
        end
        of_owner[1], of_owner[2], busy = of_owner[1] > 0 and of_owner[1] - 1 or 0, took, busy > 0 and busy - 1 or 0
      end
    end
    if settled then
      settled[receipt] = true
    end
    if place == 102 then -- f
      flown = flown or {}
      flown[#flown + 1] = receipt
    end
    gone[#gone + 1], gone[#gone + 2] = receipt, sub(receipt, 1, 16)
    verdicts, acked, removed, flying = verdicts .. '1', acked + 1, removed + 1, flying - 1
  end
end
local due = '0'
if now >= due_next or used > now + 1000 then -- or the clock went back: see rewind
  if flags > 15 then
    return 'general' -- a tenant's sleep may be over
  end
  due, due_next = '1', now + 100
end
local active, blocked, young, most_released = prefix .. 'active', prefix .. 'blocked', prefix .. 'young', math.max(1, max, #verdicts)
if max > 1 then
  redis.call('LLEN', young) -- a key of another type ends the script here, before the first write
end
if flown or rechecks or capacity - busy > least then -- as above
  redis.call('ZCARD', active)
  redis.call('ZCARD', blocked)
end
if flown then
  redis.call('ZREM', prefix .. 'flight', unpack(flown))
elseif rechecks then
  redis.call('HDEL', hot, 'none') -- a full server does not refuse it, nor then what follows
end

-- Flows that may start again have a turn now, those of tenants with the fewest in flight first. Owners know others that
-- have one by now until a message of them ends or begins.
local released = {}
for owner, state in pairs(rechecks and states or {}) do
  local flow = sub(owner, 2)
  if state[5] and state[1] > 0 and (state[2] < 0 or state[2] > 20) and capacity > 0 then
    state[5] = redis.call('ZADD', blocked, 'XX', 'CH', string.format('%d', state[1]), flow) == 1
    least = state[5] and state[1] < least and state[1] or least
  elseif state[5] then
    state[5] = false
    released[#released + 1] = redis.call('ZREM', blocked, flow) == 1 and flow or nil
  end
end
if capacity - busy > least and #released < most_released then
  local flows = redis.call('ZRANGEBYSCORE', blocked, '-inf', '(' .. capacity - busy, 'LIMIT', '0', string.format('%d', most_released - #released))
  if #flows > 0 then
    redis.call('ZREM', blocked, unpack(flows))
  end
  for _, flow in ipairs(flows) do
    released[#released + 1] = flow
    if states['o' .. flow] then
      states['o' .. flow][5] = false
    end
  end
end
if #released > 0 then
  local turns = {}
  for i, flow in ipairs(released) do
    turns[2 * i - 1], turns[2 * i] = string.format('%d', virtual), flow
    released[flow] = true
  end
  redis.call('ZADD', active, unpack(turns))
  held_back = held_back - #released
  least = held_back > 0 and redis.call('ZRANGE', blocked, '0', '0', 'WITHSCORES')[2] + 0 or 1e15
end

-- Take messages in rounds: one from each flow whose turn comes before a second one of the first. records are those of flows that
-- had a turn in this call. back are flows that keep their turn, because their message is not plain or their stream waits.
local records, changed, quick, full, paid = nil, nil, nil, nil, nil
local reply, back, ended, stop, failed, receipts = {'', nil}, nil, false, false, nil, nil
local taken, room, pushed, held, missed = 0, 1048576, 0, 0, 0
if max > 0 then
  records, changed, receipts = {}, {nil, nil}, {nil, nil}
end
local letters, next_tag, next_turn = sub(ticket, -8), nil, nil
local start = max > 0 and instant .. string.format('%d', now + ARGV[3]) .. (consumes and 'c.' or counting and 'o.' or 'r.')
while taken < max and room > 0 and not stop and not ended do
  local top, values, heads, bodies, bound -- the first write: a full server does not refuse it
  local turns, at, fresh = {nil, nil}, 1, taken
  if max - taken == 1 then
    top = redis.call('ZPOPMIN', active)
    local flow = top[1]
    if flow and flow ~= '' and records[flow] == nil then
      values = redis.call('HMGET', hot, flow, (byte(flow) == 35 and 'q' or 'o') .. flow) -- #
    end
  else -- one member stays: where a slot moves no key may be without members
    top = redis.call('ZPOPMIN', active, string.format('%d', math.max(1, math.min(max - taken, redis.call('ZCARD', active) - 1))))
    bound = top[1] and top[1] ~= '' and top[2] + 1000
    local names, last = {nil, nil}, 0
    for i = 1, #top, 2 do
      local flow = top[i]
      if flow ~= '' and records[flow] == nil then
        names[last + 1], names[last + 2], last = flow, (byte(flow) == 35 and 'q' or 'o') .. flow, last + 2
      end
    end
    if last > 0 then
      values = redis.call('HMGET', hot, unpack(names))
    end
    heads = {nil, nil}
    local of = 1
    for i = 1, #top, 2 do -- their messages in one call, but for large ones: these are 100 messages of 8 KiB at most
      local record = records[top[i]]
      if record == nil and top[i] ~= '' then
        record, of = values[of], of + 2
      end
      heads[(i + 1) / 2] = record and byte(record, 19) == 46 and sub(record, 3, 18) or '' -- .
    end
    if #heads > 0 then
      bodies = redis.call('HMGET', hot, unpack(heads))
    end
  end
  stop = #top == 0 -- the key is lost, which work says
  for i = 1, #top, 2 do
    local flow, tag, body, passes, keeps_turn = top[i], top[i + 1], nil, nil, true
    if flow == '' and #turns == 0 then -- nothing is active
      ended, virtual = true, back and virtual or 0
    end
    if flow == '' or stop or room <= 0 or bound and tag + 0 >= bound then
      keeps_turn = false
      turns[#turns + 1], turns[#turns + 2] = tag, flow
    else
      local owner, record, stored, is_stream = 'o' .. flow, records[flow], nil, byte(flow) == 35
      if record == nil then
        record, stored, at = values[at], values[at + 1], at + 2
        records[flow] = record
      end
      if is_stream and stored then
        quick = quick or {}
        quick[flow], stored = stored, nil
      end
      local mark = record and byte(record, 19)
      local id = heads and mark == 46 and heads[(i + 1) / 2] or (mark == 46 or mark == 44) and sub(record, 3, 18) -- . ,
      body = id and mark == 46 and bodies and bodies[(i + 1) / 2] or nil
      if is_stream and id then
        body = body or redis.call('HGET', hot, id)
        owner = 'o' .. (string.match(body or '', '^:%d#%d+(=[^\1]*)') or '')
        if not states[owner] then
          stored = redis.call('HGET', hot, owner)
        end
      end
      local state = states[owner]
      if not state and (stored or consumes or counting) then
        local count, mean, other = 0, -1, 0
        if stored then
          count, mean, other = struct.unpack('<ddd', stored)
        elseif is_stream and quick and is_quick(quick[flow], sub(owner, 2)) then
          mean = 0
        end
        state = {count, mean, other, false}
      end
      local rated = gap > 0 and not is_stream
      local limited = not states[owner] and #(stored or '') > 24 and sub(stored, 25) ~= '0' .. flow .. '\1'
      if not is_stream and (most > 0 or share > 0) then
        limited = limited or most > 0 and state[1] + state[3] >= most or
          share > 0 and consumes and state[1] >= math.max(1, math.floor(share * capacity))
      end
      if rated and not full then
        full, paid = {}, {}
      end
      if rated and not full[flow] then
        local score = redis.pcall('ZSCORE', prefix .. 'buckets', flow)
        if type(score) == 'table' then
          limited, failed = true, score
        else
          full[flow] = math.max(micros, math.min(score or 0, micros + burst + gap))
        end
      end
      limited = limited or rated and full[flow] - micros > burst
      if limited then
        id = nil -- the tenant has limits of its own, is blocked, or has to be
      end
      passes = id and consumes and state[1] > 0 and state[1] >= capacity - busy and (state[2] < 0 or state[2] > 20)
      if passes and not is_stream then
        local added = redis.pcall('ZADD', blocked, string.format('%d', state[1]), flow)
        if type(added) == 'table' then
          id, passes, failed = nil, false, added
        else
          states[owner], state[5], held, held_back, keeps_turn = state, true, held + 1, held_back + 1, false
          least = state[1] < least and state[1] or least
        end
      end
      if not id or passes then
        body = nil
      elseif not body then
        body = redis.call('HGET', hot, id)
      end
      local receipt, length, rest = body and id .. letters, 0, false
      if body and #record > 19 then
        rest = (byte(record) == 43 and '+' or '.') .. sub(record, 20)
      elseif body and byte(record) == 43 then -- +
        if max == 1 then
          length = redis.pcall('LLEN', young)
        end
        rest = type(length) == 'table' and length or refill(flow)
        failed = type(rest) == 'table' and rest
      end
      if body and not failed and max == 1 then
        length = redis.pcall('RPUSH', young, receipt)
        failed = type(length) == 'table' and length
      end
      if body and not failed then
        if consumes then
          state[1], busy = state[1] + 1, busy + 1
        elseif counting then
          state[3] = state[3] + 1
        end
        local of = is_stream and sub(owner, 2) or flow
        if of ~= tenant then
          others, tenant = since, of
        end
        tag = tag + 0
        virtual, since, room, pushed, taken = tag > virtual and tag or virtual, now, room - #body, length, taken + 1
        receipts[taken], reply[taken + 1] = receipt, receipt .. body
        fields[#fields + 1], fields[#fields + 2] = receipt, start .. (is_stream and flow .. of or flow)
        if rest and stored and #stored > 24 and not released[flow] then
          missed = missed + 1 -- writes of the rest woke no reader
        end
        records[flow], changed[#changed + 1], states[owner] = rest, flow, state
        if rest and not is_stream and consumes and state[1] >= capacity - busy and (state[2] < 0 or state[2] > 20) and
          type(redis.pcall('ZADD', blocked, string.format('%d', state[1]), flow)) ~= 'table' then
          state[5], held, held_back, least = true, held + 1, held_back + 1, state[1] < least and state[1] or least
        elseif rest then
          if tag ~= next_tag then
            next_tag, next_turn = tag, string.format('%d', tag + 1000)
          end
          turns[#turns + 1], turns[#turns + 2] = next_turn, flow
        end
        if rated then
          full[flow] = math.ceil(full[flow] + gap)
          paid[#paid + 1] = flow
        end
      end
    end
    if failed and not stop or not body and keeps_turn then
      back = back or {}
      back[#back + 1], back[#back + 2] = top[i + 1], flow
      stop = not passes -- work takes the messages that are not plain
    end
    if held > 32 or back and #back > 64 then
      stop = true -- so many flows wait for a handler, which work notes
    end
  end
  if #turns > 0 then
    redis.call('ZADD', active, unpack(turns))
  end
  if max > 1 and taken > fresh then
    pushed = redis.call('RPUSH', young, unpack(receipts, fresh + 1, taken))
  end
end
if back then
  redis.call('ZADD', active, unpack(back))
end
if paid and #paid > 0 then
  local scores = {}
  for i, flow in ipairs(paid) do
    scores[2 * i - 1], scores[2 * i] = string.format('%.0f', full[flow]), flow
  end
  redis.call('ZADD', prefix .. 'buckets', unpack(scores))
  local old = redis.call('ZRANGEBYSCORE', prefix .. 'buckets', '-inf', micros, 'LIMIT', '0', string.format('%d', 2 * #paid))
  if #old > 0 then
    redis.call('ZREM', prefix .. 'buckets', unpack(old))
  end
end
if failed and taken + held + #released == 0 then
  return failed
elseif taken < max and room > 0 and (back or held_back > 0 and (flags % 16 > 1 or now - others > 60000)) then
  stop = true -- streams wait for a handler, a limit may be another one, or a tenant whose flow is blocked may be alone now
end

-- Store it.
for _, flow in ipairs(changed or {}) do
  if records[flow] then
    fields[#fields + 1], fields[#fields + 2] = flow, records[flow]
  else
    gone[#gone + 1] = flow
    gone[#gone + 1] = byte(flow) == 35 and 'q' .. flow or nil
  end
end
for owner, state in pairs(states) do
  local count, other, flow = state[1], state[3], sub(owner, 2)
  local record = records and records[flow]
  if count + other > 0 or record or record == nil and state[4] then -- its mean is remembered while messages wait
    local text = struct.pack('<ddd', count, state[2], other)
    fields[#fields + 1], fields[#fields + 2] = owner, state[5] and text .. '0' .. flow .. '\1' or text
  else
    gone[#gone + 1] = owner
    local stream = state[6]
    if stream and (not records or records[stream] ~= false) then
      local stored = redis.call('HMGET', hot, 'q' .. stream, stream)
      quick = quick or {}
      local names = remember(quick[stream] or stored[1], flow, state[2])
      if names and stored[2] and names ~= stored[1] then
        fields[#fields + 1], fields[#fields + 2], quick[stream] = 'q' .. stream, names, names
      end
    end
  end
end
if #gone == 0 and max == 0 then
  gone[1] = 'none' -- the first write: see above
end
if #gone > 0 then
  redis.call('HDEL', hot, unpack(gone))
end
if taken > 0 then
  flying, delivered = flying + taken, delivered + taken
  local look = pushed > 1000 + 2 * flying and now + 100 or now + 10000
  due_next = look < due_next and look or due_next
end
if stop then
  due = '2'
elseif byte(ARGV[2]) == 43 and taken < max and room > 0 and due == '0' then
  due = '4'
end
local wakes = math.max(0, #released - taken) + missed -- for readers whose handlers are free
if due == '4' or wakes > 0 then
  local writes = redis.call('HGET', hot, 'w')
  if #(writes or '') ~= 40 then
    due = '2' -- work reports the fault
  else
    local written, sleepers = struct.unpack('<dd', writes)
    for _ = 1, math.min(sleepers, wakes) do
      redis.pcall('LPUSH', prefix .. 'wake', '1')
      redis.pcall('PEXPIRE', prefix .. 'wake', '10000')
      sleepers = sleepers - 1
    end
    fields[#fields + 1], fields[#fields + 2] = 'w', struct.pack('<dd', written, sleepers + (due == '4' and 1 or 0)) .. sub(writes, 17)
  end
end
if (held_back > 0 or counting) and (due == '0' or due == '4') then
  due = due == '0' and '5' or '9' -- an acknowledgement is not to wait
end
fields[2] = ticket .. clock[1] .. verdicts .. ' ' .. due .. (taken > 0 and table.concat(receipts) or '')
fields[4] = struct.pack('<dddddddddddddddc8', virtual, flags, delivered, acked, flying, busy, capacity, due_next, least, since, others,
  used > now and used or now, cancelled, held_back, removed, roll) .. tenant
redis.call('HSET', hot, unpack(fields))
reply[1] = instant .. due .. verdicts
if taken < max then
  local pause = due_next - now
  reply[1] = reply[1] .. string.format('%010d', pause < 0 and 0 or pause > 1e9 and 1e9 or pause)
end
return taken > 1 and reply or table.concat(reply)
