-- fairqueue.cancel(K) id ... -> places
--
-- Removes messages that are not done. The receipt of one in flight stays until its reader
-- settles or extends it, and finds that the message is gone.
--
-- Needs    record, turns, flight, lane
-- KEYS[1]  K
-- ARGV     ids, at most 80
-- Reply    for each id a letter: d if it was set aside, w if it waited, f if it was in
--          flight, - if it is done, dead or unknown
-- Cost     O(log N) an id
-- Repeat   harmless: the lane knows the answer
if not exists then
  return string.rep('-', #ARGV)
elseif answered then
  return answered
end

-- A message that is set aside says how often it was delivered, which nobody else knows.
local function set_aside(first, tail)
  local most = math.min(100, tonumber(attempts or 5))
  for from = 0, most, 4 do
    local members = {}
    for made = from, math.min(most, from + 3) do
      members[#members + 1] = first .. ';' .. made .. tail
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
local places = {}
for i, id in ipairs(ARGV) do
  local body = redis.call('HGET', messages, id)
  places[i] = '-'
  if body and not redis.call('ZSCORE', dead, id) then
    local _, first, tail = header(body, id)
    local member, aside = waiting(first), nil
    if member then
      redis.call('ZREM', backlog, member)
    else
      aside = set_aside(first, tail)
      if aside then
        redis.call('ZREM', delayed, aside)
      end
    end
    places[i] = member and 'w' or aside and 'd' or 'f'
    n.cancelled = n.cancelled + (places[i] == 'f' and 1 or 0)
    remove(id)
    redis.call('ZREM', deadlines, id)
    count('cancelled', 1)
  end
end
save()
return answer(table.concat(places))
