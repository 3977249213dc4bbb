-- fairqueue.batch(K) verb ... -> text
--
-- Makes a batch, or changes one: its messages are counted, and when all have ended the queue writes a message.
--
-- Needs    record, flows, limits, owners, batches, answers
-- KEYS[1]  K
-- ARGV[1]  verb: 'create'; 'close', after which it takes no more messages; 'cancel', after which none that waits is delivered
-- ARGV     create: how many messages it will have, '-' if that is not known; the end, as its field eID has it; the setting of streams for which
--          it was made.
--          close, cancel: the id
-- Reply    of create the id, '!' if there are 100,000, or '?' and the setting of streams if that is another one; of the others the batch's field after that, '' if it is not there; nil
--          without a queue
-- Cost     O(log N)
-- Repeat   harmless: the lane knows the answer
if not exists then
  return false
elseif answered then
  return answered
end
local missing = broken()
if missing then
  return missing
end
local reply = ''
if ARGV[1] == 'create' then
  if tonumber(redis.call('HGET', K, 'batches') or 0) >= 100000 then
    return '!'
  elseif (streams or '') ~= ARGV[4] then
    return '?' .. (streams or '')
  end
  local ends = whole(now + behind + 2592000000) -- 30 days
  reply = string.format('%016.0f', math.max(n.last + 1, micros + 1000 * behind))
  n.last = reply
  redis.call('ZADD', prefix .. 'deadlines', ends, 'b' .. reply) -- the first write: a full server refuses it
  redis.call('HINCRBY', K, 'batches', '1')
  sets['b' .. reply], sets['e' .. reply] = table.concat({ends, 'o', ARGV[2], '0;0;0;0;0'}, ';'), ARGV[3]
  due_at(ends + 0)
else
  redis.call('HDEL', K, 'none') -- a full server does not refuse it, nor then what follows
  local batch = batch_of(ARGV[2])
  if batch and batch.state == 'o' then
    batch.state, batch.total, batch.changed = ARGV[1] == 'cancel' and 'x' or 'o', whole(batch.written), true
    save_batches()
    save_states()
  end
  reply = sets['b' .. ARGV[2]] or redis.call('HGET', hot, 'b' .. ARGV[2]) or ''
end
answer(reply)
save()
return reply
