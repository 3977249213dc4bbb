-- fragment flows: messages that wait, flow by flow
--
-- An entry is a message that waits, in 18 bytes: PRIORITY, ID, and '.' if it is plain, ',' if it has more than 8 KiB besides,
-- ';' if it was delivered before, was delayed, or has a deadline or a cost; '$' of a head whose flow has paid for it: see
-- next. Entries sort by priority and id.
--
-- The field of a flow has '.' and its entries; or '+' and the first of them, up to 16, if others may lie in backlog, as
-- FLOW \1 ENTRY with the score 0. A flow without entries has no field.
--
-- Needs    record, backlog
-- Touches  hot, backlog
-- Gives    refund(flow, id): a head that was paid for is no longer the head; limits has it
--          reconsider(flow): another message is the head, and was not popped; limits has it
--          load_flows(names): reads flows in one call
--          add(flow, entry) -> whether the flow was empty
--          head(flow) -> its first entry, or nil
--          pop(flow): takes that out, for a delivery
--          pay(flow): notes that its head is paid for
--          take_out(flow, start) -> whether it had the entry with that priority and id, which it loses
--          waiting(flow) -> how many entries it has
--          emptied: flows that lost their last entry
local records, emptied = {}, {}
local refund, reconsider

local function load_flows(names)
  local values = redis.call('HMGET', hot, unpack(names))
  for i, name in ipairs(names) do
    if records[name] == nil then
      records[name] = values[i]
    end
  end
end

local function record_of(flow)
  if records[flow] == nil then
    records[flow] = redis.call('HGET', hot, flow)
  end
  return records[flow]
end

local function set_record(flow, record)
  local was = records[flow]
  if was and string.byte(was, 19) == 36 and string.sub(was, 2, 18) ~= string.sub(record, 2, 18) then -- $
    record = string.gsub(record, '%$', ';')
    refund(flow, string.sub(was, 3, 18))
  end
  if #record == 1 then
    record = string.byte(record) == 43 and refill(flow) -- +
  end
  records[flow], sets[flow], gone[flow], emptied[flow] = record, record or nil, not record or nil, not record or nil
  if not record and string.byte(flow) == 35 then -- #
    gone['q' .. flow] = true
  end
  if was and record and string.sub(was, 2, 18) ~= string.sub(record, 2, 18) then
    reconsider(flow)
  end
end

local function add(flow, entry)
  local record = record_of(flow)
  if not record then
    set_record(flow, '.' .. entry)
    return true
  end
  local at = #record - 17
  if string.sub(record, at) < entry and (#record == 289 or string.byte(record) == 43) then -- +
    redis.call('ZADD', backlog, '0', flow .. '\1' .. entry)
    set_record(flow, '+' .. string.sub(record, 2))
    return false
  end
  while at > 1 and string.sub(record, at, at + 17) > entry do
    at = at - 18
  end
  record = string.sub(record, 1, at + 17) .. entry .. string.sub(record, at + 18)
  if #record > 289 then
    redis.call('ZADD', backlog, '0', flow .. '\1' .. string.sub(record, -18))
    record = '+' .. string.sub(record, 2, 289)
  end
  set_record(flow, record)
  return false
end

local function head(flow)
  local record = record_of(flow)
  return record and string.sub(record, 2, 19) or nil
end

local function pop(flow)
  local record = record_of(flow)
  records[flow] = string.sub(record, 1, 1) .. string.sub(record, 20)
  set_record(flow, records[flow])
end

local function pay(flow)
  set_record(flow, string.sub(record_of(flow), 1, 18) .. '$' .. string.sub(record_of(flow), 20))
end

local function take_out(flow, start)
  local record = record_of(flow)
  for at = 2, record and #record or 0, 18 do
    if string.sub(record, at, at + 16) == start then
      set_record(flow, string.sub(record, 1, at - 1) .. string.sub(record, at + 18))
      return true
    end
  end
  return record and redis.call('ZREM', backlog, flow .. '\1' .. start .. '.', flow .. '\1' .. start .. ',', flow .. '\1' .. start .. ';') == 1
end

local function waiting(flow)
  local record = record_of(flow)
  if not record then
    return 0
  end
  local more = string.byte(record) == 43 and redis.call('ZLEXCOUNT', backlog, '[' .. flow .. '\1', '(' .. flow .. '\2') or 0 -- +
  return (#record - 1) / 18 + more
end
