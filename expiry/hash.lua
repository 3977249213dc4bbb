-- fragment hash: the hash of a write
--
-- It reads before anything is written.
--
-- Needs    hashes
-- Touches  h:ARGV[2], t:ARGV[2]
-- Gives    name: of the hash
--          h, t: keys of its values and of its deadlines; fields: how many it has
--          look(places) -> deadlines, values: the deadlines and values of those fields, see
--          deadline_of; nil for the place '', which is the record's. After a mebibyte of values
--          it uses the index and returns no value
--          list(place, deadline): notes the change of a field's entry in the index
--          store(items, from): stores the values of fields, and the noted changes of the
--          index. Its first write is one that a full server refuses
--          at: the time of the hash's record, 0 if the index due has another one
local name = ARGV[2]
if name == '' then
  return redis.error_reply('ERR a hash has a name')
end
local h, t = prefix .. 'h:' .. name, prefix .. 't:' .. name
local fields, at = fields_of(h), at_of(h)
if not at then
  return redis.error_reply('VERSION ' .. string.sub(redis.call('HGET', h, ''), 9))
end
redis.call('ZCARD', t) -- fails for another type
if time_of(redis.call('ZSCORE', due, name)) ~= at then
  at = 0
end
local listed, unlisted, scored, score = {}, {}, nil, nil

local function look(places)
  local deadlines, values, number = {}, stored_of(h, places)
  for i = 1, number do
    deadlines[i] = places[i] ~= '' and deadline_of(values[i]) or nil
  end
  for i = number + 1, #places do
    local there = redis.call('HEXISTS', h, places[i]) == 1
    deadlines[i] = there and tonumber(redis.call('ZSCORE', t, places[i]) or math.huge) or 0
  end
  return deadlines, values
end

local function list(place, deadline)
  if deadline < math.huge then
    if deadline ~= scored then
      scored, score = deadline, string.format('%.0f', deadline)
    end
    listed[#listed + 1] = score
    listed[#listed + 1] = place
  else
    unlisted[#unlisted + 1] = place
  end
end

local function store(items, from)
  redis.call('HSET', h, unpack(items, from))
  if fields == 0 then
    redis.call('ZADD', t, '+inf', '')
  end
  if #listed > 0 then
    redis.call('ZADD', t, unpack(listed))
  end
  if #unlisted > 0 then
    redis.call('ZREM', t, unpack(unlisted))
  end
end
