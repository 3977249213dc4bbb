-- fragment hashes: a shard of hashes that is written to
--
-- A hash has two keys: h holds the values, each behind its deadline, and t is an index of the
-- deadlines. Both have a field by its place: its name, behind a byte 0 if the name is empty or
-- begins with one. A field without a deadline has no entry in t. The place '' is the hash's own.
-- In h it holds the record: a time that is no later than any deadline, infinite without one, and
-- the version. In t it has an infinite score: without it, t was lost. Both keys go with the last
-- field, and no script touches them after that: in a moving slot it would fail. The index due
-- has every hash at the time of its record.
--
-- The deadline in front of a value decides, and t says when to check it. Only the length, and a
-- write behind a mebibyte of values, go by t alone.
--
-- Needs    shard, value, record
-- Touches  due
-- Makes    K hash version 4, due zset
-- Gives    due: the key of the index
--          fields_of(h): how many fields a hash has
--          at_of(h): the time of its record, 0 without one, nil for that of another version
--          stored_of(h, places) -> values, number: the stored values of the first fields, and
--          of how many: ten at a time, up to a mebibyte
--          settle(of, gone, alive, most, at) -> how many fields were removed because they
--          have expired, how many entries it read: the last call for a hash. It removes the
--          fields gone, of which so many are alive, and some expired ones, at most so many
--          or a mebibyte; then it corrects the hash's record and its entry in due, which are
--          at that time. Never a script's first write: a full server refuses it
local due = prefix .. 'due'

local function fields_of(h)
  return redis.call('HLEN', h) - redis.call('HEXISTS', h, '') -- fails for another type
end

local function at_of(h)
  local record = redis.call('HGET', h, '')
  local at = deadline_of(record) or 0
  if at > 0 and string.sub(record, 9) ~= layout then
    return nil
  end
  return at
end

local function stored_of(h, places)
  local values, number, room = {}, 0, 1048576
  while number < #places and room > 0 do
    local step = redis.call('HMGET', h, unpack(places, number + 1, math.min(number + 10, #places)))
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
  local first = time_of(redis.call('ZRANGE', t, 0, 0, 'WITHSCORES')[2])
  if #gone == 0 and first > now and first == at then
    return 0, 0
  end
  local fields, places, late, removed = fields_of(h), {unpack(gone)}, {}, 0
  local overdue = redis.call('ZRANGEBYSCORE', t, '-inf', now, 'LIMIT', 0, most)
  local values, number = {}, #overdue
  if fields > 0 then
    values, number = stored_of(h, overdue)
  end
  for i = 1, number do
    local deadline = deadline_of(values[i]) or math.huge -- a text that is no value stays, and has no entry
    if deadline > now and deadline < math.huge then
      late[#late + 1] = string.format('%.0f', deadline)
      late[#late + 1] = overdue[i]
    else
      places[#places + 1] = overdue[i]
      gone[#gone + 1] = deadline <= now and overdue[i] or nil
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
    redis.call('UNLINK', h, t)
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
  if time_of(first) ~= at then
    redis.call('ZADD', due, first, of)
    redis.call('HSET', h, '', head_of(math.max(0, time_of(first))) .. layout)
  end
  return removed - alive, looked
end
