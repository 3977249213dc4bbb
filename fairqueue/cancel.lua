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
    local _, priority, flow = header(body)
    if take_out(flow, priority .. id) then
      letters[i] = 'w'
      if not head(flow) then
        leave(flow)
      end
    elseif redis.call('ZREM', delayed, flow .. '\1' .. priority .. id) == 1 then
      letters[i] = 'd'
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
