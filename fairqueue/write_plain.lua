-- fairqueue.write_plain(K) digest {flow} ... {owner} ... {priority} ... {body} ... -> ids, 'general' or 'new'
--
-- Writes messages that have nothing but a priority, to flows of tenants, all or none. It is the short form of write,
-- which does all else, and knows the queue by one hash: see record.
--
-- Needs    clock, ticket
-- Touches  hot, active, backlog, asleep
-- Beside   wake
-- KEYS[1]  K
-- ARGV[1]  digest of the settings that write would store: 8 hexadecimal digits
-- ARGV     for messages, at most 100: the flow of each, '=TENANT'; of each the field of its owner, 'o=TENANT'; the priority of each;
--          the body of each, as readers get it
-- Reply    the ids with spaces between; 'general' if it takes write: nothing was changed; 'new' if the lane is new
-- Cost     O(log N) a message
-- Repeat   harmless: the lane knows the answer
local sub, byte = string.sub, string.byte
local hot, many = prefix .. 'hot', (#ARGV - 1) / 4
local found = redis.call('HMGET', hot, 'w', 't', 'l' .. lane, unpack(ARGV, 2, 1 + 2 * many))
if not found[3] or #ticket ~= 27 then
  return 'new'
elseif #(found[1] or '') ~= 40 or #(found[2] or '') < 120 then
  return 'general' -- which says what is wrong
end
local answered = replay(found[3])
if answered then
  return answered
end
local written, sleepers, last, digest = struct.unpack('<ddc16c8', found[1])
local virtual, flags = struct.unpack('<dd', found[2])
if digest ~= ARGV[1] or flags % 8 > 1 then
  return 'general' -- the settings are others
end
local id, ids, records = clock[1] .. sub('00000' .. clock[2], -6), {nil}, {}
local fields, turns, spilled, tag = {'w', '', 'l' .. lane, '', nil, nil, nil, nil}, {nil, nil}, nil, nil
for i = 1, many do
  local flow, priority, owner = ARGV[1 + i], ARGV[1 + 2 * many + i], found[3 + many + i]
  local record = records[flow] or found[3 + i]
  if owner and #owner > 16 or flags > 15 and not record and redis.call('ZSCORE', prefix .. 'asleep', flow) then
    return 'general' -- the tenant has limits of its own, is blocked or sleeps
  elseif id <= last then
    id = string.format('%016.0f', last + 1)
  end
  last, ids[i] = id, id
  if not record then
    tag = tag or string.format('%d', virtual + 1000)
    turns[#turns + 1], turns[#turns + 2] = tag, flow
    record = '.' .. priority .. id .. '.'
  elseif byte(record, -18) > byte(priority) then
    return 'general' -- it goes in front of others
  elseif #record < 289 and byte(record) == 46 then -- .
    record = record .. priority .. id .. '.'
  else
    spilled = spilled or {}
    spilled[#spilled + 1], spilled[#spilled + 2] = '0', flow .. '\1' .. priority .. id .. '.'
    record = '+' .. sub(record, 2)
  end
  records[flow] = record
  fields[#fields + 1], fields[#fields + 2] = id, ':' .. priority .. flow .. '\1\1' .. ARGV[1 + 3 * many + i]
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
local wakes = sleepers < many and sleepers or many
local answer = table.concat(ids, ' ')
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
