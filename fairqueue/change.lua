-- fairqueue.change(K) verb id ... -> letters
--
-- Cancels, retries, redrives or purges messages. A retried message waits no longer for its instant. A redriven one waits as if
-- it had never been delivered, and without its deadline. The receipt of a message that was cancelled in flight stays until its reader settles or extends it.
--
-- Needs    record, flows, limits, owners, dedupes, batches, returns, answers, begin
-- KEYS[1]  K
-- ARGV[1]  verb: 'cancel' to remove messages that are not done, 'retry' to make delayed ones wait, 'redrive' to make dead
--          ones wait, 'purge' to remove those
-- ARGV     ids, at most 33
-- Reply    for each id the former state of the message: d delayed, w waiting, f in flight, x dead; '-' if the verb
--          does not apply to it; nil without a queue
-- Cost     O(log N) an id
-- Repeat   harmless: the lane knows the answer, if there was something to change

local function cancel(id)
  local body = not gone[id] and redis.call('HGET', hot, id)
  if not body or redis.call('ZSCORE', dead, id) then
    return '-'
  end
  local _, priority, flow = header(body)
  local letter = 'f'
  if take_out(flow, priority .. id) then
    letter = 'w'
    if not head(flow) then
      leave(flow)
    end
  elseif redis.call('ZREM', delayed, flow .. '\1' .. priority .. id) == 1 then
    letter = 'd'
  else
    n.cancelled = n.cancelled + 1
  end
  remove(id, body)
  redis.call('ZREM', deadlines, id)
  return letter
end

local function retry(id)
  local body = not gone[id] and redis.call('HGET', hot, id)
  local _, priority, flow = header(body or nil)
  if not body or redis.call('ZREM', delayed, flow .. '\1' .. priority .. id) == 0 then
    return '-'
  end
  local made, why = past_of(id)
  enqueue(flow, id, priority, made, now, why)
  return 'd'
end

local function end_death(id)
  if redis.call('ZREM', dead, id) == 0 then
    return '-'
  end
  redis.call('HDEL', deaths, id)
  local body = redis.call('HGET', hot, id)
  if ARGV[1] == 'purge' then
    remove(id, body)
  elseif body then
    local deadline, priority, flow = header(body)
    if deadline then
      sets[id] = string.gsub(body, '^%d+', '', 1)
    end
    enqueue(flow, id, priority, 0, now, '')
  end
  return 'x'
end

local verb, letters = ARGV[1], {}
local does, counter = unpack(({cancel = {cancel, 'cancelled'}, retry = {retry}, redrive = {end_death, 'redriven'}, purge = {end_death, 'purged'}})[verb] or {})
if not does then
  return redis.error_reply('ERR not a verb')
end
for i = 2, #ARGV do
  letters[i - 1] = does(ARGV[i])
end
letters = table.concat(letters)
local _, changed = string.gsub(letters, '%a', '')
count(counter, counter and changed or 0)
wake(returned + freed)
if changed > 0 then
  answer(letters)
end
save_batches()
save_states()
save()
return letters
