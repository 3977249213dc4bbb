-- fragment flows: messages that wait, flow by flow
--
-- An entry is a message that waits: PRIORITY, ID, and '.' or a tail, ';', 1,000 more than its
-- length, and ATTEMPTS;SINCE=TENANT, each part if it is there: how many deliveries the message
-- had, since when it waits if not since its write, and of which tenant it is if its flow is a
-- stream. Entries sort by priority and id.
--
-- The field of a flow has its first entries, up to 16, behind a byte that counts them, 'A' plus
-- their number, or 'a' plus their number if more of the flow lie in backlog, as FLOW \1 ENTRY with
-- the score 0; and the priority of the last one. A flow without entries has no field.
--
-- Needs    record
-- Touches  hot, backlog
-- Gives    suffix(tail): the part of an entry behind its id
--          load_flows(names): reads flows in one call
--          add(flow, entry, fresh) -> whether it was empty: adds an entry; a fresh one has the
--          highest id
--          head(flow) -> its first entry, or nil
--          pop(flow) -> its first entry, which it loses
--          take_out(flow, start) -> the entry that starts with that priority and id, which it
--          loses, or nil
--          waiting(flow) -> how many entries it has
--          emptied: flows that lost their last entry
local records, emptied = {}, {}

local function suffix(tail)
  return tail == '' and '.' or ';' .. 1000 + #tail .. tail
end

local function load_flows(names)
  for i, record in ipairs(redis.call('HMGET', hot, unpack(names))) do
    if records[names[i]] == nil then
      records[names[i]] = record
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
  records[flow], sets[flow], gone[flow], emptied[flow] = record, record or nil, not record or nil, not record or nil
end

-- The place of the last byte of the entry that starts there.
local function end_of(record, at)
  return string.byte(record, at + 17) == 59 and at - 979 + string.sub(record, at + 18, at + 21) or at + 17 -- ;
end

local function list_of(record)
  local list, at = {}, 3
  while at <= #record do
    local last = end_of(record, at)
    list[#list + 1] = string.sub(record, at, last)
    at = last + 1
  end
  return list
end

local function record_with(list, more)
  return #list > 0 and string.char((more and 97 or 65) + #list) .. string.sub(list[#list], 1, 1) .. table.concat(list)
end

local function spill(flow, entry)
  spilled[#spilled + 1] = '0'
  spilled[#spilled + 1] = flow .. '\1' .. entry
end

local function refill(flow)
  store_spilled()
  local page = redis.call('ZRANGEBYLEX', backlog, '[' .. flow .. '\1', '(' .. flow .. '\2', 'LIMIT', '0', '17')
  local more, list = page[17], {}
  page[17] = nil
  if #page > 0 then
    redis.call('ZREM', backlog, unpack(page))
  end
  for i, member in ipairs(page) do
    list[i] = string.sub(member, #flow + 2)
  end
  return record_with(list, more)
end

local function add(flow, entry, fresh)
  local record, priority = record_of(flow), string.byte(entry)
  if not record then
    set_record(flow, record_with({entry}))
    return true
  end
  local size, last = string.byte(record, 1, 2)
  local more = size > 96
  size = size - (more and 97 or 65)
  if priority > last or priority == last and fresh then
    if more or size == 16 then
      spill(flow, entry)
      set_record(flow, string.char(97 + size) .. string.sub(record, 2))
    else
      set_record(flow, string.char(66 + size, priority) .. string.sub(record, 3) .. entry)
    end
    return false
  end
  local list, start = list_of(record), string.sub(entry, 1, 17)
  local place = #list + 1
  while place > 1 and string.sub(list[place - 1], 1, 17) > start do
    place = place - 1
  end
  if place > #list and more then
    spill(flow, entry)
    return false
  end
  table.insert(list, place, entry)
  if #list > 16 then
    spill(flow, table.remove(list))
    more = true
  end
  set_record(flow, record_with(list, more))
  return false
end

local function head(flow)
  local record = record_of(flow)
  return record and string.sub(record, 3, end_of(record, 3)) or nil
end

local function pop(flow)
  local record = record_of(flow)
  local last, size = end_of(record, 3), string.byte(record)
  if last < #record then
    set_record(flow, string.char(size - 1) .. string.sub(record, 2, 2) .. string.sub(record, last + 1))
  else
    set_record(flow, size > 96 and refill(flow))
  end
  return string.sub(record, 3, last)
end

local function take_out(flow, start)
  local record = record_of(flow)
  if not record then
    return nil
  end
  local list, more = list_of(record), string.byte(record) > 96
  for i, entry in ipairs(list) do
    if string.sub(entry, 1, 17) == start then
      table.remove(list, i)
      if #list > 0 then
        set_record(flow, record_with(list, more))
      else
        set_record(flow, more and refill(flow))
      end
      return entry
    end
  end
  if more then
    store_spilled()
    local first = flow .. '\1' .. start
    local member = redis.call('ZRANGEBYLEX', backlog, '[' .. first, '(' .. first .. '\255', 'LIMIT', '0', '1')[1]
    if member then
      redis.call('ZREM', backlog, member)
      if not redis.call('ZRANGEBYLEX', backlog, '[' .. flow .. '\1', '(' .. flow .. '\2', 'LIMIT', '0', '1')[1] then
        set_record(flow, record_with(list))
      end
      return string.sub(member, #flow + 2)
    end
  end
end

local function waiting(flow)
  local record = record_of(flow)
  if not record then
    return 0
  end
  local size = string.byte(record)
  if size < 97 then
    return size - 65
  end
  store_spilled()
  return size - 97 + redis.call('ZLEXCOUNT', backlog, '[' .. flow .. '\1', '(' .. flow .. '\2')
end
