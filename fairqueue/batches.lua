-- fragment batches: messages that are counted together
--
-- A batch has an id as messages have one. Its field bID of hot is 'UNTIL;STATE;TOTAL;WRITTEN;HANDLED;DEAD;CANCELLED;EXPIRED':
-- UNTIL, in milliseconds, is when it is done at the latest, and of one that is done when it is forgotten; deadlines has bID with
-- that score. STATE is 'o' for open, 'x' if it was cancelled, and 'd' if it is done. TOTAL is how many messages it will have, '-'
-- while nobody knows. The field eID has the message that says that it is done: 'TTL;COST;', and what a message's field has
-- from its priority on; it goes when that is written.
--
-- The header of a message of a batch has '@' and the id, and of one that died and counts no more also ','. That of the message of
-- the end has '@ID,HANDLED,DEAD,CANCELLED,EXPIRED,LEFT'. A batch that has none left is done. K counts the batches in its field
-- batches.
--
-- Needs    record, flows, limits
-- Touches  hot, deadlines, active, asleep, blocked
-- Gives    batch_of(id) -> its numbers by name, or false
--          is_withdrawn(mark) -> whether the batch of a message was cancelled; mark is what the header has behind '@', or ''
--          leaves_batch(mark, how): a message left its batch: handled, dead, cancelled or expired
--          end_batch(id): a batch has reached its time: it is done, or forgotten
--          save_batches(): puts batches into sets, and writes the message of those that are done; once, before
--          save_states: what it writes cannot be read in this call
local batches, batch_numbers = {}, {'written', 'handled', 'dead', 'cancelled', 'expired'}

local function batch_of(id)
  if batches[id] == nil then
    local ends, state, total, numbers = string.match(sets['b' .. id] or redis.call('HGET', hot, 'b' .. id) or '', '^(%d+);(%l);([%d-]+)(.*)$')
    local batch = ends and {ends = ends, state = state, total = total}
    for word in string.gmatch(numbers or '', '%d+') do
      batch[#batch + 1] = tonumber(word)
    end
    for i, name in ipairs(batch and batch_numbers or {}) do
      batch[name] = batch[i] or 0
    end
    batches[id] = batch or false
  end
  return batches[id]
end

local function is_withdrawn(mark)
  local batch = #mark == 16 and batch_of(mark)
  return batch and batch.state == 'x'
end

local function leaves_batch(mark, how)
  local batch = #mark == 16 and batch_of(mark)
  if batch and batch.state ~= 'd' then
    batch[how], batch.changed = batch[how] + 1, true
  end
end

-- A done batch is known for a day, or, if there are more than 10,000, for a minute.
local function finish_batch(id, batch, left)
  local ttl, cost, priority, flow, rest = string.match(redis.call('HGET', hot, 'e' .. id) or '', '^(%d+);(%d+);(%d)(#?%d*)(.*)$')
  local many = tonumber(redis.call('HGET', K, 'batches') or 0) > 10000
  batch.state, batch.ends, batch.changed = 'd', whole(now + (many and 60000 or 86400000)), true
  redis.call('ZADD', prefix .. 'deadlines', 'XX', batch.ends, 'b' .. id)
  due_at(batch.ends + 0)
  gone['e' .. id] = true
  if not rest then
    return -- the field was lost
  end
  local message, deadline = string.format('%016.0f', math.max(n.last + 1, micros + 1000 * behind)), ''
  n.last, n.written = message, n.written + 1
  if ttl ~= '0' then
    deadline = whole(now + behind + ttl)
    redis.call('ZADD', prefix .. 'deadlines', deadline, message)
    due_at(deadline + 0)
  end
  local counts = table.concat({id, whole(batch.handled), whole(batch.dead), whole(batch.cancelled), whole(batch.expired), whole(left)}, ',')
  sets[message] = deadline .. (cost ~= '1' and '*' .. cost or '') .. '@' .. counts .. ':' .. priority .. flow .. rest
  flow = flow ~= '' and flow or string.match(rest, '^=[^\1]*')
  if add(flow, priority .. message .. ';') then
    put({flow})
  end
  wake(1)
end

local function batch_left(batch)
  return batch.written - batch.handled - batch.dead - batch.cancelled - batch.expired
end

local function end_batch(id)
  local batch = batch_of(id)
  if batch and batch.state ~= 'd' then
    finish_batch(id, batch, batch_left(batch))
    return
  end
  redis.call('ZREM', prefix .. 'deadlines', 'b' .. id)
  gone['b' .. id], sets['b' .. id], batches[id] = true, nil, false
  redis.call('HINCRBY', K, 'batches', batch and -1 or 0)
end

local function save_batches()
  for id, batch in pairs(batches) do
    if batch and batch.changed then
      local all_written = batch.state == 'x' or batch.state == 'o' and batch.total ~= '-' and batch.written >= batch.total + 0
      if all_written and batch_left(batch) <= 0 then
        finish_batch(id, batch, 0)
      end
      local words = {batch.ends, batch.state, batch.total}
      for _, name in ipairs(batch_numbers) do
        words[#words + 1] = whole(batch[name])
      end
      sets['b' .. id], batch.changed = table.concat(words, ';'), false
    end
  end
end
