-- fairqueue.cancel(K) id ... -> letters
--
-- Removes messages that are not done. The receipt of a message in flight stays until its reader
-- settles or extends it.
--
-- Needs    record, flows, limits, owners, dedupes, returns, answers
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
redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
local letters, cancelled = {}, 0
for i, id in ipairs(ARGV) do
  local body = not gone[id] and redis.call('HGET', hot, id)
  letters[i] = '-'
  if body and not redis.call('ZSCORE', dead, id) then
    local _, priority, flow, tail = header(body)
    local waits = take_out(flow, priority .. id)
    local later = not waits and find_delayed(flow .. '\1' .. priority .. id, tail)
    if waits then
      letters[i] = 'w'
      if not head(flow) then
        leave(flow)
      end
    elseif later then
      letters[i] = 'd'
      redis.call('ZREM', delayed, later)
    else
      letters[i], n.cancelled = 'f', n.cancelled + 1
    end
    remove(id, body)
    redis.call('ZREM', deadlines, id)
    cancelled = cancelled + 1
  end
end
count('cancelled', cancelled)
if cancelled > 0 then
  answer(table.concat(letters))
end
save_states()
save()
return table.concat(letters)
