-- fairqueue.write_plain(K) digest each {flow} ... {owner} ... {priority} ... {body} ... -> ids, 'general' or 'new'
--
-- Writes messages that have nothing but a priority, all or none, each to the one of its candidate flows in which the
-- fewest messages wait. It is the short form of write, which does all else, and knows the queue by one hash: see record.
--
-- Needs    clock, ticket
-- Touches  hot, active, backlog, asleep
-- Beside   wake
-- KEYS[1]  K
-- ARGV[1]  digest of the settings that write would store: 8 hexadecimal digits
-- ARGV[2]  each: how many candidates a message has; 0 if its flow is '=TENANT'
-- ARGV     for messages, at most 100, 10 with candidates: the flow or the candidates '#N' of each; of each the field of its
--          owner, 'o=TENANT'; the priority of each; the body of each, as readers get it
-- Reply    the ids with spaces between; 'general' if it takes write: nothing was changed; 'new' if the lane is new
-- Cost     O(log N) a message and candidate
-- Repeat   harmless: the lane knows the answer
local sub, byte, each = string.sub, string.byte, ARGV[2] + 0
local hot, choices = prefix .. 'hot', each > 0 and each or 1
local many = (#ARGV - 2) / (choices + 3)
local found = redis.call('HMGET', hot, 'w', 't', 'l' .. lane, unpack(ARGV, 3, 2 + (choices + 1) * many))
if not found[3] or #ticket ~= 27 then
  return 'new'
elseif #(found[1] or '') ~= 40 or #(found[2] or '') < 128 then
  return 'general' -- which reports the fault
end
local answered = replay(found[3])
if answered then
  return answered
end
local written, sleepers, last, digest = struct.unpack('<ddc16c8', found[1])
local virtual, flags = struct.unpack('<dd', found[2])
if digest ~= ARGV[1] or flags > 31 then
  return 'general' -- the settings are others, or there are limits for writes
end
local id, ids, records = clock[1] .. (#clock[2] == 6 and clock[2] or sub('00000' .. clock[2], -6)), {nil}, {}
local fields, turns, spilled, tag, ready = {'w', '', 'l' .. lane, '', nil, nil, nil, nil}, {nil, nil}, nil, nil, 0
for i = 1, many do
  local at = choices * (i - 1)
  local flow, owner, priority = ARGV[3 + at], ARGV[2 + choices * many + i], ARGV[2 + (choices + 1) * many + i]
  local record, state, fewest = records[flow] or found[4 + at], found[3 + choices * many + i], nil
  for choice = at, at + each - 1 do
    local other = ARGV[3 + choice]
    local entries = records[other] or found[4 + choice]
    local size = entries and #entries or 0
    if size > 0 and byte(entries) == 43 then -- +
      size = size + 18 * redis.call('ZLEXCOUNT', prefix .. 'backlog', '[' .. other .. '\1', '(' .. other .. '\2')
    end
    if not fewest or size < fewest then
      flow, record, fewest = other, entries, size
    end
  end
  if state and #state > 24 and (not record or byte(state, 25) == 49) or -- 1
    flags % 32 > 15 and not record and redis.call('ZSCORE', prefix .. 'asleep', flow) then
    return 'general' -- the tenant has limits of its own or sleeps, or was blocked
  elseif id <= last then
    id = string.format('%016.0f', last + 1)
  end
  last, ids[i] = id, id
  local body = ':' .. priority .. flow .. (each > 0 and sub(owner, 2) or '') .. '\1\1' .. ARGV[2 + (choices + 2) * many + i]
  local entry = priority .. id .. (#body > 8192 and ',' or '.')
  if each > 0 or not state or #state == 24 then
    ready = ready + 1 -- else the flow waits for a handler, or had a turn a moment ago: see work_plain
  end
  if not record then
    tag = tag or string.format('%d', virtual + 1000)
    turns[#turns + 1], turns[#turns + 2] = tag, flow
    record = '.' .. entry
  elseif byte(record, -18) > byte(priority) then
    return 'general' -- it goes in front of others
  elseif #record < 289 and byte(record) == 46 then -- .
    record = record .. entry
  else
    spilled = spilled or {}
    spilled[#spilled + 1], spilled[#spilled + 2] = '0', flow .. '\1' .. entry
    record = '+' .. sub(record, 2)
  end
  fields[#fields + 1], fields[#fields + 2], records[flow] = id, body, record
end
if #turns > 0 and spilled then
  redis.call('ZCARD', prefix .. 'backlog') -- a key of another type ends the script here
end
if #turns > 0 then
  redis.call('ZADD', prefix .. 'active', unpack(turns)) -- a first write, which a full server refuses
end
if spilled then
  redis.call('ZADD', prefix .. 'backlog', unpack(spilled))
end
for flow, record in pairs(records) do
  fields[#fields + 1], fields[#fields + 2] = flow, record
end
local wakes = sleepers < ready and sleepers or ready
local answer = many == 1 and last or table.concat(ids, ' ')
fields[2] = struct.pack('<ddc16c8', written + many, sleepers - wakes, last, digest)
fields[4] = ticket .. clock[1] .. answer
redis.call('HSET', hot, unpack(fields))
for _ = 1, wakes do
  redis.pcall('LPUSH', prefix .. 'wake', '1')
end
if wakes > 0 then
  redis.pcall('PEXPIRE', prefix .. 'wake', '10000')
end
return answer
