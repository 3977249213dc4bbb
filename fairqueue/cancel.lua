-- fairqueue.cancel(K) id ... -> letters
--
-- Removes messages that are not done. The receipt of a message in flight stays until its reader
-- settles or extends it.
--
-- Needs    record, always, limits, turns, flight, lane
-- KEYS[1]  K
-- ARGV     ids, at most 33
-- Reply    for each id a letter: d if it was delayed, w if it waited, f if it was in flight,
--          - if it is done, dead or unknown
-- Cost     O(log N) an id
-- Repeat   harmless: the lane knows the answer, if there was something to remove
if not exists then
  return string.rep('-', #ARGV)
elseif answered then
  return answered
end

-- The member of delayed has the number of deliveries, which nothing else has.
local function find_delayed(start, tail)
  local most = math.min(100, tonumber(attempts or 5))
  for from = 0, most, 4 do
    local members = {}
    for made = from, math.min(most, from + 3) do
      members[#members + 1] = start .. ';' .. made .. tail
    end
    for i, due in ipairs(redis.call('ZMSCORE', delayed, unpack(members))) do
      if due then
        return members[i]
      end
    end
  end
end

local missing = broken()
if missing then
  return missing
end
local letters, cancelled = {}, 0
for i, id in ipairs(ARGV) do
  local body = redis.call('HGET', messages, id)
  letters[i] = '-'
  if body and not redis.call('ZSCORE', dead, id) then
    local _, start, tail = header(body, id)
    local waits = find_waiting(start)
    local later = not waits and find_delayed(start, tail)
    if waits then
      letters[i] = 'w'
      redis.call('ZREM', backlog, waits)
    elseif later then
      letters[i] = 'd'
      redis.call('ZREM', delayed, later)
    else
      letters[i] = 'f'
      n.cancelled = n.cancelled + 1
    end
    remove(id, body)
    redis.call('ZREM', deadlines, id)
    cancelled = cancelled + 1
  end
end
count('cancelled', cancelled)
save()
return cancelled > 0 and answer(table.concat(letters)) or table.concat(letters)
