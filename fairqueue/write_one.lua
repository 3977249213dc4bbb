-- fairqueue.write_one(K) digest flow priority body owner -> id, 'general' or 'new'
--
-- Writes one message: write_plain for one, in the same words.
--
-- Needs    clock, ticket
-- Touches  hot, active, backlog, asleep
-- Beside   wake
-- KEYS[1]  K
-- ARGV[1]  digest of the settings that write would store: 8 hexadecimal digits
-- ARGV[2]  flow, '=TENANT'
-- ARGV[3]  priority
-- ARGV[4]  body, as readers get it
-- ARGV[5]  owner: the field of the tenant's state, 'o=TENANT'
-- Reply    the id; 'general' if it takes write: nothing was changed; 'new' if the lane is new
-- Cost     O(log N)
-- Repeat   harmless: the lane knows the answer
local hot, flow, priority = prefix .. 'hot', ARGV[2], ARGV[3]
local found = redis.call('HMGET', hot, 'w', 't', 'l' .. lane, flow, ARGV[5])
local w, t, last_answer, record, state = found[1], found[2], found[3], found[4], found[5]
if not last_answer or #ticket ~= 27 then
  return 'new'
elseif not w or not t or #w ~= 40 or #t < 120 then
  return 'general' -- which says what is wrong
elseif string.sub(last_answer, 1, 16) >= string.sub(ticket, 1, 16) then
  if string.sub(last_answer, 1, 27) == ticket then
    return string.sub(last_answer, 38)
  end
  return redis.error_reply('LANE the lane is at ' .. string.sub(last_answer, 1, 16))
end
local written, sleepers, last, digest = struct.unpack('<ddc16c8', w)
local virtual, flags = struct.unpack('<dd', t)
if digest ~= ARGV[1] or flags % 8 > 1 or state and #state > 16 or
  flags > 15 and not record and redis.call('ZSCORE', prefix .. 'asleep', flow) then
  return 'general' -- the settings are others, or its tenant has limits of its own, is blocked or sleeps
end
local id = clock[1] .. string.sub('00000' .. clock[2], -6)
if id <= last then
  id = string.format('%016.0f', last + 1)
end
if not record then
  redis.call('ZADD', prefix .. 'active', string.format('%d', virtual + 1000), flow) -- a first write, which a full server refuses
  record = 'B' .. priority .. priority .. id .. '.'
else
  local size, behind = string.byte(record, 1, 2)
  if behind > string.byte(priority) then
    return 'general' -- it goes in front of others
  elseif size < 81 then -- fewer than 16, and none in backlog
    record = string.char(size + 1) .. priority .. string.sub(record, 3) .. priority .. id .. '.'
  else
    redis.call('ZADD', prefix .. 'backlog', '0', flow .. '\1' .. priority .. id .. '.')
    record = size > 96 and record or string.char(size + 32) .. string.sub(record, 2)
  end
end
local wakes = sleepers > 0 and 1 or 0
redis.call('HSET', hot, 'w', struct.pack('<ddc16c8', written + 1, sleepers - wakes, id, digest), 'l' .. lane, ticket .. clock[1] .. id,
  flow, record, id, ':' .. priority .. flow .. '\1\1' .. ARGV[4])
if wakes > 0 then
  redis.pcall('LPUSH', prefix .. 'wake', '1')
  redis.pcall('PEXPIRE', prefix .. 'wake', '10000')
end
return id
