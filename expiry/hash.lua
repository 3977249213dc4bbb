-- fragment hash: the hash of a write
--
-- It reads before anything is written.
--
-- Needs    hashes
-- Touches  h:ARGV[2], t:ARGV[2]
-- Gives    name: of the hash
--          h, t: keys of its values and of its deadlines; fields: how many it has
--          look(names) -> deadlines, values: what is stored of those fields, see
--          deadline_of. After a mebibyte of values it uses the index and returns no value
--          list(field, deadline, had): notes the change of a field's entry in the index
--          store(items, from): sets fields to what is to be stored, and the index to what
--          was noted. Its first write is one that a full server refuses
--          at: the score of the hash in the index due
local name = ARGV[2]
if name == '' then
  return redis.error_reply('ERR a hash has a name')
end
local h, t = prefix .. 'h:' .. name, prefix .. 't:' .. name
local fields, at = redis.call('HLEN', h), redis.call('ZSCORE', due, name) -- fails for another type
redis.call('ZCARD', t)
local listed, unlisted, scored, score = {}, {}, nil, nil

local function look(names)
  local deadlines, values, number = {}, stored_of(h, names)
  for i = 1, number do
    deadlines[i] = deadline_of(values[i])
  end
  for i = number + 1, #names do
    local there = redis.call('HEXISTS', h, names[i]) == 1
    deadlines[i] = there and tonumber(redis.call('ZSCORE', t, place_of(names[i])) or math.huge) or 0
  end
  return deadlines, values
end

local function list(field, deadline, had)
  if deadline < math.huge then
    if deadline ~= scored then
      scored, score = deadline, string.format('%.0f', deadline)
    end
    listed[#listed + 1] = score
    listed[#listed + 1] = place_of(field)
  elseif had > 0 and had < math.huge then
    unlisted[#unlisted + 1] = place_of(field)
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
