-- fairqueue.write_plain(K) digest {flow priority body} ... -> ids, 'general' or 'new'
--
-- Writes messages that have nothing but a priority, to flows of tenants, all or none. It is the
-- short form of write, which does all else, and knows the queue by one hash: see record.
--
-- Needs    clock, ticket
-- Touches  hot, active, backlog, asleep
-- Beside   wake
-- KEYS[1]  K
-- ARGV[1]  digest of the settings that write would store: 8 hexadecimal digits
-- ARGV     for each message, at most 100: its flow, '=TENANT'; its priority; its body, as readers get it
-- Reply    the ids with spaces between; 'general' if it takes write: nothing was changed; 'new' if
--          the lane is new
-- Cost     O(log N) a message
-- Repeat   harmless: the lane knows the answer
local hot, names, places = prefix .. 'hot', {}, {}
for i = 2, #ARGV, 3 do
  local flow = ARGV[i]
  if not places[flow] then
    places[flow] = #names + 4
    names[#names + 1] = flow
    names[#names + 1] = 'o' .. flow
  end
end
local found = redis.call('HMGET', hot, 'w', 't', 'l' .. lane, unpack(names))
local last_answer = found[3]
if not last_answer or #ticket ~= 27 then
  return 'new'
elseif #(found[1] or '') ~= 40 or #(found[2] or '') < 120 then
  return 'general' -- which says what is wrong
elseif string.sub(last_answer, 1, 16) >= string.sub(ticket, 1, 16) then
  if string.sub(last_answer, 1, 27) == ticket then
    return string.sub(last_answer, 38)
  end
  return redis.error_reply('LANE the lane is at ' .. string.sub(last_answer, 1, 16))
end
local written, sleepers, last, digest = struct.unpack('<ddc16c8', found[1])
local virtual, flags = struct.unpack('<dd', found[2])
if digest ~= ARGV[1] or flags % 8 > 1 then
  return 'general'
end
local new = {}
for i = 5, #found, 2 do
  if found[i] and #found[i] > 16 then
    return 'general' -- a tenant has limits of its own, or is blocked
  elseif not found[i - 1] then
    new[#new + 1] = names[i - 4]
  end
end
if flags > 15 and #new > 0 then
  for _, score in ipairs(redis.call('ZMSCORE', prefix .. 'asleep', unpack(new))) do
    if score then
      return 'general' -- a tenant sleeps
    end
  end
end

local id = clock[1] .. string.rep('0', 6 - #clock[2]) .. clock[2]
local fields, ids, turns, spilled, tag = {}, {}, {}, {}, nil
for i = 2, #ARGV, 3 do
  local flow, priority = ARGV[i], ARGV[i + 1]
  if id <= last then
    id = string.format('%016.0f', last + 1)
  end
  last = id
  local entry, place = priority .. id .. '.', places[flow]
  local record = found[place]
  if not record then
    tag = tag or string.format('%d', virtual + 1000)
    turns[#turns + 1] = tag
    turns[#turns + 1] = flow
    found[place] = 'B' .. priority .. entry
  else
    local size, behind = string.byte(record, 1, 2)
    if behind > string.byte(priority) then
      return 'general' -- it goes in front of others
    elseif size < 81 then -- fewer than 16, and none in backlog
      found[place] = string.char(size + 1) .. priority .. string.sub(record, 3) .. entry
    else
      spilled[#spilled + 1] = '0'
      spilled[#spilled + 1] = flow .. '\1' .. entry
      found[place] = string.char(size > 96 and size or size + 32) .. string.sub(record, 2)
    end
  end
  ids[#ids + 1], fields[#fields + 1], fields[#fields + 2] = id, id, ':' .. priority .. flow .. '\1\1' .. ARGV[i + 2]
end
if #spilled > 0 then
  redis.call('ZCARD', prefix .. 'backlog') -- a key of another type ends the script here
end
if #turns > 0 then
  redis.call('ZADD', prefix .. 'active', unpack(turns)) -- a first write, which a full server refuses
end
if #spilled > 0 then
  redis.call('ZADD', prefix .. 'backlog', unpack(spilled))
end
for i = 1, #names, 2 do
  fields[#fields + 1], fields[#fields + 2] = names[i], found[i + 3]
end
local wakes, answer = math.min(sleepers, #ids), table.concat(ids, ' ')
redis.call('HSET', hot, 'w', struct.pack('<ddc16c8', written + #ids, sleepers - wakes, last, digest), 'l' .. lane, ticket .. clock[1] .. answer,
  unpack(fields))
for _ = 1, wakes do
  redis.pcall('LPUSH', prefix .. 'wake', '1')
end
if wakes > 0 then
  redis.pcall('PEXPIRE', prefix .. 'wake', '10000')
end
return answer
