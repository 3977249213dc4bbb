-- fragment quick: sets fields of a hash that exists, if there is nothing else to do
--
-- It ends the script if the hash is of this version, nothing in it has expired, and no deadline
-- is earlier than that of its record: then neither the shard's record nor the index of hashes
-- changes. The first write is one that a full server refuses, and before it the keys are known
-- to be of their types. Its arguments are those of put.
--
-- Needs    clock, value, record
-- Touches  h:ARGV[2], t:ARGV[2]
-- Gives    deadline: that of the fields, infinite for none
local deadline = ARGV[3] == 'none' and math.huge
if (ARGV[3] == 'in' or ARGV[3] == 'at') and #ARGV[4] < 16 and string.find(ARGV[4], '^%-?%d+$') then
  deadline = (ARGV[3] == 'in' and math.ceil(micros / 1000) or 0) + ARGV[4]
end
if not deadline or deadline >= 281474976710655 and deadline < math.huge or #ARGV < 6 or #ARGV % 2 == 1 then
  return redis.error_reply('ERR invalid arguments of a write')
end
do
  local h = prefix .. 'h:' .. ARGV[2]
  local record = redis.call('HGET', h, '')
  local at = record and string.sub(record, 9) == layout and deadline_of(record) or 0
  if at > now and deadline >= at then
    local t, head, listed = prefix .. 't:' .. ARGV[2], head_of(deadline), {}
    local score = deadline < math.huge and string.format('%d', deadline)
    for i = 5, #ARGV, 2 do
      if ARGV[i] == '' then
        return redis.error_reply('BROKEN a field has no place')
      end
      listed[i - 4], listed[i - 3] = score or ARGV[i], ARGV[i]
      ARGV[i + 1] = head .. ARGV[i + 1]
    end
    if score then
      redis.call('ZADD', t, unpack(listed))
    elseif at < math.huge then
      redis.call('ZCARD', t) -- fails for another type
    end
    redis.call('HSET', h, unpack(ARGV, 5))
    if not score and at < math.huge then
      redis.call('ZREM', t, unpack(listed))
    end
    return 1
  end
end
