-- fragment hashes: a shard of hashes that is written to
--
-- A hash has two keys: h holds the values, each behind its deadline, and t is an index of
-- the deadlines. A field without a deadline has no entry in t. The entry '' with an
-- infinite score exists as long as the hash: without it, t was lost. Both keys go with the
-- last field, and no script touches them after that: in a moving slot it would fail. The
-- index due has every hash at its first deadline.
--
-- The deadline in front of a value decides; t only says when to check it.
--
-- Needs    shard, value
-- Touches  due
-- Makes    K hash version 3, due zset
-- Gives    due: the key of the index
--          place_of(field), field_at(place): names of a field and of its entry in t
--          stored_of(h, names) -> values, number: what is stored of the first fields, and
--          of how many: ten at a time, up to a mebibyte
--          settle(of, gone, alive, most, at) -> how many fields were removed because they
--          have expired, how many entries it read: the last call for a hash. It removes the
--          fields gone, of which so many are alive, and some expired ones, at most so many
--          or a mebibyte; then it corrects the score of the hash in due, which is at now.
--          Never a script's first write: a full server refuses it
local due = prefix .. 'due'

local function place_of(field)
  return (string.byte(field) or 0) == 0 and '\0' .. field or field
end

local function field_at(place)
  return string.byte(place) == 0 and string.sub(place, 2) or place
end

local function stored_of(h, names)
  local values, number, room = {}, 0, 1048576
  while number < #names and room > 0 do
    local step = redis.call('HMGET', h, unpack(names, number + 1, math.min(number + 10, #names)))
    for i = 1, #step do
      values[number + i] = step[i]
      room = room - (step[i] and #step[i] or 0)
    end
    number = number + #step
  end
  return values, number
end

local function settle(of, gone, alive, most, at)
  local h, t = prefix .. 'h:' .. of, prefix .. 't:' .. of
  local first = redis.call('ZRANGE', t, 0, 0, 'WITHSCORES')[2]
  if #gone == 0 and time_of(first) > now then
    if first ~= at then
      redis.call('ZADD', due, first, of)
    end
    return 0, 0
  end
  local fields, places, late, removed = redis.call('HLEN', h), {}, {}, 0
  for i, field in ipairs(gone) do
    places[i] = place_of(field)
  end
  local overdue, names = redis.call('ZRANGEBYSCORE', t, '-inf', now, 'LIMIT', 0, most), {}
  for i, place in ipairs(overdue) do
    names[i] = field_at(place)
  end
  local values, number = {}, #names
  if fields > 0 then
    values, number = stored_of(h, names)
  end
  for i = 1, number do
    local deadline = deadline_of(values[i]) or math.huge -- what is no value stays, and has no place
    if deadline > now and deadline < math.huge then
      late[#late + 1] = string.format('%.0f', deadline)
      late[#late + 1] = overdue[i]
    else
      places[#places + 1] = overdue[i]
      gone[#gone + 1] = deadline <= now and names[i] or nil
    end
  end
  local looked = #places + #late / 2
  if #gone > 0 and fields > 0 then
    removed = redis.call('HDEL', h, unpack(gone))
    if removed > alive then
      count('reaped', removed - alive)
    end
  end
  if removed == fields then
    redis.call('UNLINK', t)
    redis.call('ZREM', due, of)
    return removed - alive, looked
  end
  if #late > 0 then
    redis.call('ZADD', t, unpack(late))
  end
  if #places > 0 then
    redis.call('ZREM', t, unpack(places))
  end
  first = redis.call('ZRANGE', t, 0, 0, 'WITHSCORES')[2] or 'inf'
  if first ~= at then
    redis.call('ZADD', due, first, of)
  end
  return removed - alive, looked
end
