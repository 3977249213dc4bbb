-- fragment hash_one: the one hash that a write is about
--
-- It is looked at before anything is written.
--
-- Needs    hash_shard
-- Touches  h:ARGV[2], t:ARGV[2]
-- Gives    name: of the hash
--          h, t: keys of its values and of its deadlines
--          look(field) -> deadline, value: what is stored of a field; see deadline_of.
--          Behind a mebibyte of values it goes by the index, and brings no value
--          list(field, deadline, had): notes where a field belongs in the index that had
--          another deadline
--          store(items): sets fields to what is to be stored, and the index to what was
--          noted. Its first write is one that a full server refuses
local name = ARGV[2]
local h, t = prefix .. 'h:' .. name, prefix .. 't:' .. name
local fields, room, listed, unlisted = redis.call('HLEN', h), 1048576, {}, {} -- what is something else ends the script here
redis.call('ZCARD', t)

local function look(field)
  if room > 0 then
    local value = redis.call('HGET', h, field)
    room = room - (value and #value or 0)
    return deadline_of(value), value
  end
  local there = redis.call('HEXISTS', h, field) == 1
  return there and tonumber(redis.call('ZSCORE', t, place_of(field)) or math.huge) or 0
end

local function list(field, deadline, had)
  if deadline < math.huge then
    listed[#listed + 1] = string.format('%.0f', deadline)
    listed[#listed + 1] = place_of(field)
  elseif had > 0 and had < math.huge then
    unlisted[#unlisted + 1] = place_of(field)
  end
end

local function store(items)
  redis.call('HSET', h, unpack(items))
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
