-- fairqueue.work_one(K) kind max visibility enter random [receipt owner took] -> text
--
-- Acknowledges at most one delivery and takes at most one message: work_plain for a reader that has
-- little to do, in the same words.
--
-- Needs    clock, ticket
-- Touches  hot, active, backlog, young, flight
-- KEYS[1]  K
-- ARGV[1]  kind: 'c' to take a message for a handler of Consume, 'r' for others
-- ARGV[2]  max: how many messages the reader has room for, '0' for none; it gets one at most
-- ARGV[3]  visibility in milliseconds, 10,000 at least
-- ARGV[4]  enter: '1' from a reader that sleeps if nothing more is there
-- ARGV[5]  random: eight letters for the receipt
-- ARGV[6]  a delivery's receipt
-- ARGV[7]  the field of its owner, 'o=TENANT'
-- ARGV[8]  how many milliseconds its handler took, '' for as long as it was in flight
-- Reply    'general' if it takes work: nothing was changed; 'new' if the lane is new; else the clock in
--          microseconds, 16 digits; '1' if something is due, '2' if the next call should be work, '3'
--          if more messages may wait, '4' if the reader was noted as one that sleeps, else '0'; 1 if the
--          receipt was good, else 0; how many milliseconds until something is due, 10 digits; and a
--          new receipt and what is stored of its message, if there is one
-- Cost     O(log N)
-- Repeat   harmless: the lane knows the answer; a message that is no longer in flight is left out
local hot, kind, ack, owner = prefix .. 'hot', ARGV[1], ARGV[6], ARGV[7]
local instant = clock[1] .. string.sub('00000' .. clock[2], -6)
local found = redis.call('HMGET', hot, 't', 'l' .. lane, 'w', ack or '', owner or '', string.sub(owner or '', 2))
local record, last_answer, held, state, waits = found[1] or '', found[2], ack and found[4], found[5], found[6]
if not last_answer or #ticket ~= 27 then
  return 'new'
elseif #record < 120 then
  return 'general' -- which says what is wrong
elseif string.sub(last_answer, 1, 16) >= string.sub(ticket, 1, 16) then
  if string.sub(last_answer, 1, 27) ~= ticket then
    return redis.error_reply('LANE the lane is at ' .. string.sub(last_answer, 1, 16))
  end
  local receipt = string.sub(last_answer, 40)
  local body = receipt ~= '' and redis.call('HEXISTS', hot, receipt) == 1 and redis.call('HGET', hot, string.sub(receipt, 1, 16))
  return instant .. string.sub(last_answer, 38, 39) .. '0000000000' .. (body and receipt .. body or '')
end
local virtual, flags, delivered, acked, flying, busy, capacity, due_next, least, since, others, _, cancelled, held_back, removed =
  struct.unpack('<ddddddddddddddd', record)
local tenant = string.sub(record, 121)
if flags % 16 ~= 0 and (flags % 16 ~= 8 or kind ~= 'c' or capacity == 0) or cancelled > 0 and ack or kind ~= 'c' and held_back > 0 then
  return 'general' -- it is paused, has streams, limits that concern all, or blocked flows that Read takes
end

-- Acknowledge.
local verdict, count, mean, flies, enters = '0', nil, nil, false, ARGV[4] == '1' and ARGV[2] ~= '0'
if held then
  local was, place, _, tail = string.byte(held, 30, 33)
  if tail ~= 46 or was ~= 99 and was ~= 114 then -- . c r
    return 'general' -- it was delivered before, has a deadline, or is counted for limits
  elseif was == 99 then
    if not state or #state > 16 or owner ~= 'o' .. string.sub(held, 34) then
      return 'general' -- flows of its owner are blocked
    end
    count, mean = struct.unpack('<dd', state)
    local took = ARGV[8] == '' and (micros - string.sub(held, 1, 16)) / 1000 or ARGV[8] + 0
    took = took > 0 and took - took % 1 or 0
    if mean >= 0 then
      took = (3 * mean + took) / 4
      took = took - took % 1
    end
    count, mean, busy = count > 0 and count - 1 or 0, took, busy > 0 and busy - 1 or 0
  end
  verdict, flies, acked, removed, flying = '1', place == 102, acked + 1, removed + 1, flying - 1 -- f
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

-- Take a message. A key of another type ends the script at its first write, or its turn is put back.
if flies then
  redis.call('ZREM', prefix .. 'flight', ack)
end
local top = ARGV[2] ~= '0' and redis.call('ZPOPMIN', prefix .. 'active') or {} -- the first write: a full server does not refuse it
local flow, tag, receipt, body, rest = top[1], tonumber(top[2]), '', nil, nil
local sets = {'l' .. lane, '', 't', ''}
local gone = held and {ack, string.sub(ack, 1, 16)} or ARGV[2] == '0' and {'none'} or {} -- or it is the first write
if flow == '' then -- the first placeholder; there is another one, because where a slot moves no key may be without members
  redis.call('ZADD', prefix .. 'active', '+inf', '')
  due = held_back > 0 and '2' or due -- perhaps a tenant whose flow is blocked is alone now
elseif flow then
  local field, consumes = 'o' .. flow, kind == 'c' and capacity > 0
  local of_flow = redis.call('HMGET', hot, flow, field)
  local entries, number, usual = of_flow[1], 0, -1
  if field == owner and count then
    number, usual = count, mean
  elseif of_flow[2] then
    number, usual = struct.unpack('<dd', of_flow[2])
  end
  local id = entries and string.byte(entries, 20) == 46 and not (of_flow[2] and #of_flow[2] > 16) and string.sub(entries, 4, 19) -- .
  local passes = consumes and not (number == 0 or number < capacity - busy or usual >= 0 and usual <= 20)
  body = id and not passes and redis.call('HGET', hot, id)
  if not body or string.byte(body) ~= 58 then -- :
    due, body = id and passes and '3' or '2', nil -- it was lost, has a tail or a deadline, or its tenant has limits, or may not start another one
    redis.call('ZADD', prefix .. 'active', top[2], flow)
  else
    receipt = id .. ARGV[5]
    local list = #entries == 20 and string.byte(entries) > 96 and
      redis.pcall('ZRANGEBYLEX', prefix .. 'backlog', '[' .. flow .. '\1', '(' .. flow .. '\2', 'LIMIT', '0', '17')
    local length = list and list.err and list or redis.pcall('RPUSH', prefix .. 'young', receipt)
    if type(length) == 'table' then -- it is an error
      redis.call('ZADD', prefix .. 'active', top[2], flow)
      return length
    end
    if #entries > 20 then
      rest = string.char(string.byte(entries) - 1) .. string.sub(entries, 2, 2) .. string.sub(entries, 21)
    elseif list then
      local more, skip = list[17], #flow + 2
      list[17] = nil
      redis.call('ZREM', prefix .. 'backlog', unpack(list))
      for i = 1, #list do
        list[i] = string.sub(list[i], skip)
      end
      rest = string.char((more and 97 or 65) + #list) .. string.sub(list[#list], 1, 1) .. table.concat(list)
    end
    if flow ~= tenant then
      others, tenant = since, flow
    end
    virtual, since = tag > virtual and tag or virtual, now
    sets[5], sets[6] = receipt, instant .. string.format('%d', now + ARGV[3]) .. (consumes and 'c' or 'r') .. '.' .. string.sub(entries, 3, 3) .. '.' .. flow
    if rest then
      redis.call('ZADD', prefix .. 'active', string.format('%d', virtual + 1000), flow)
      sets[7], sets[8] = flow, rest
    else
      gone[#gone + 1] = flow
      waits = waits and field ~= owner
      if of_flow[2] and number == 0 and not consumes then
        gone[#gone + 1] = field
      end
    end
    if consumes then
      busy = busy + 1
      sets[#sets + 1], sets[#sets + 2] = field, struct.pack('<dd', number + 1, usual)
      count = field ~= owner and count
    end
    if ARGV[2] == '1' then
      enters = false
    elseif due == '0' and (rest or redis.call('ZCARD', prefix .. 'active') > 2) then -- the placeholders
      due = '3'
    end
    flying, delivered = flying + 1, delivered + 1
    local look = length > 1000 + 2 * flying and now + 100 or now + 10000
    due_next = look < due_next and look or due_next
  end
end

-- Store it.
if count and (count > 0 or waits) then -- its mean is remembered while messages wait
  sets[#sets + 1], sets[#sets + 2] = owner, struct.pack('<dd', count, mean)
elseif count then
  gone[#gone + 1] = owner
end
if #gone > 0 then
  redis.call('HDEL', hot, unpack(gone))
end
if enters and due == '0' then
  due = '4'
  local written, sleepers = struct.unpack('<dd', found[3])
  sets[#sets + 1], sets[#sets + 2] = 'w', struct.pack('<dd', written, sleepers + 1) .. string.sub(found[3], 17)
end
sets[2] = ticket .. clock[1] .. due .. verdict .. receipt
sets[4] = struct.pack('<ddddddddddddddd', virtual, flags, delivered, acked, flying, busy, capacity, due_next, least, since, others, now,
  cancelled, held_back, removed) .. tenant
redis.call('HSET', hot, unpack(sets))
local pause = due_next - now
return instant .. due .. verdict .. string.format('%010d', pause < 0 and 0 or pause > 1e9 and 1e9 or pause) .. receipt .. (body or '')
