-- fairqueue.write(K) attempts window idle streams {flows options body} ... -> {0, ids}
--
-- Writes messages, all or none, each to the one of its candidate flows in which the fewest
-- messages wait. A message with a delay lies in delayed until then. Creates the queue if there is
-- none.
--
-- Needs    record, flows, limits, create, dedupes, batches, answers
-- Touches  delayed, deadlines, schedules, ticks, young
-- KEYS[1]  K
-- ARGV[1]  attempts: the setting to store, how many deliveries a message has; 0 for no change
-- ARGV[2]  window: for how many milliseconds a dedupe id counts
-- ARGV[3]  idle: the setting to store, after how many milliseconds without a write or a read
--          an empty queue is removed, with a '!' behind also a full one; 0 for no change
-- ARGV[4]  streams: that setting as the writer knows it, or the one for a new queue: '' if
--          tenants are flows, 'STREAMS PER_TENANT' if streams are
-- ARGV     for each message: its flow '=TENANT', or its candidates '#1,#7=TENANT';
--          'PRIORITY' or 'PRIORITY DELAY TTL COST BATCH NAME', times in milliseconds and 0 for none; NAME is
--          a dedupe id, or '@POSITION SOURCE', or '!DUE\1WAS\1BECOMES\1SCHEDULE' for the tick of a
--          schedule in the state WAS, which becomes BECOMES, with the id for '?', and ticks again
--          at DUE; the body, as readers get it. At most 100 messages, fewer where they have
--          candidates
-- Reply    {0, ids with spaces between, digest of the settings}; '=' before the id of a message that an earlier
--          write with the same dedupe id wrote, '=' alone for a position that was written before,
--          or a schedule that has another state or is not due.
--          '?AT' for a position that is not written because its source is at AT, '?' because the
--          queue has no room for another source; '!' for a message that is not written because its
--          tenant has as many waiting as its limit; '*' if its batch takes no more. {1, streams, ''} if the setting is another one:
--          then nothing was written
-- Cost     O(log N) a message and candidate
-- Repeat   harmless: the lane knows the answer. A request that its client repeats tries refused messages
--          again
if answered and not (keyed and string.find(' ' .. answered, ' [!?]')) then
  return {0, answered, n.digest}
elseif exists and (streams or '') ~= ARGV[4] then
  return {1, streams or '', ''}
end
local earlier -- what an earlier try wrote, by the number of the message
if answered then
  earlier = {}
  for id in string.gmatch(answered, '%S+') do
    earlier[#earlier + 1] = not string.find(id, '^[!?]') and id
  end
end

local delayed, deadlines = prefix .. 'delayed', prefix .. 'deadlines'
local ids, ready, flows, is_flow = {}, 0, {}, {}
local later, expiring, names, positions, states = {}, {}, {}, {}, {} -- rare
local sources, most_sources = nil, 1000

-- The candidate in which the fewest wait, with those that this call adds.
local function least_loaded(list)
  local best, fewest
  for flow in string.gmatch(list, '#%d+') do
    local size = waiting(flow)
    if not fewest or size < fewest then
      best, fewest = flow, size
    end
  end
  return best
end

-- A refusal or a reason why nothing is written; with that of a schedule, a source or a dedupe id
-- also the fields that change with the message.
local function look_up(name)
  local position, source = string.match(name, '^@(%d+) (.*)$')
  if source then
    position = tonumber(position)
    sources = sources or tonumber(redis.call('HGET', K, 'sources') or 0)
    local at = positions[source] or tonumber(redis.call('HGET', K, 'at:' .. source) or 0)
    if position <= at then
      return '='
    elseif position > at + 1 then
      return '?' .. whole(at)
    elseif at == 0 and sources >= most_sources then
      return '?'
    end
    return nil, function()
      positions[source] = position
      sources = sources + (position == 1 and 1 or 0)
    end
  end
  local due, was, becomes, schedule = string.match(name, '^!(%d+)\1([^\1]*)\1([^\1]*)\1(.*)$')
  if schedule then
    local state = states[schedule] or
      {redis.call('HGET', prefix .. 'schedules', 's' .. schedule), redis.call('ZSCORE', prefix .. 'ticks', schedule)}
    if not (state[1] == was and state[2] and tonumber(state[2]) <= now) then
      return '='
    end
    return nil, function(id)
      states[schedule] = {becomes, due, (string.gsub(becomes, '?', id, 1))}
    end
  end
  local written = names[name] or tonumber(redis.call('ZSCORE', dedupes, name) or 0) > now and redis.call('HGET', dedupe, name)
  if written then
    return '=' .. written
  end
  return nil, function(id)
    names[name] = id
  end, name
end

local candidates, all, rare = ARGV[4] ~= '', {}, false
for arg = 5, #ARGV, 3 do
  if #ARGV[arg + 1] > 1 then
    rare = true
    local cost = tonumber(string.match(ARGV[arg + 1], '^%d %d+ %d+ (%d+) ') or 0)
    if cost < 1 or cost > 1000000 then
      return redis.error_reply('ERR not options of a message: ' .. ARGV[arg + 1])
    end
  end
  if candidates then
    for flow in string.gmatch(ARGV[arg], '#%d+') do
      all[#all + 1] = flow
    end
  else
    all[#all + 1] = ARGV[arg]
  end
end
if #all > 0 then
  load_flows(all)
end
if epoch and not candidates then
  load_rules(all)
end
if exists then -- a key of another type ends the script here, before the first write
  local touched = {'active', 'backlog', n.blocked > 0 and 'blocked' or nil}
  if rare then
    touched = {'active', 'backlog', 'blocked', 'delayed', 'deadlines', 'asleep', 'dedupes', 'ticks'}
  end
  for _, name in ipairs(touched) do
    redis.call('ZCARD', prefix .. name)
  end
  if rare then
    redis.call('HLEN', dedupe)
  end
else
  create(ARGV[4])
end

for arg = 5, #ARGV, 3 do
  local flow, priority, owner, name, deadline, wait, ttl, cost, batch = ARGV[arg], ARGV[arg + 1], '', '', '', 0, 0, '1', '0'
  local before, written = earlier and earlier[(arg - 2) / 3]
  if not before and #priority > 1 then
    priority, wait, ttl, cost, batch, name = string.match(priority, '^(.) (%d+) (%d+) (%d+) (%d+) (.*)$')
    wait, ttl = tonumber(wait), tonumber(ttl)
    if name ~= '' then
      before, written, name = look_up(name)
    end
  end
  local most = epoch and not candidates and rule_of(flow).waiting or 0
  if not before and most > 0 and wait == 0 and waiting(flow) >= most then
    before = '!'
  end
  local of = not before and #batch == 16 and batch_of(batch)
  if not before and batch ~= '0' and not (of and of.state == 'o' and (of.total == '-' or of.written < of.total + 0)) then
    before = '*'
  end
  if before then
    ids[#ids + 1] = before
  else
    if candidates then
      flow, owner = string.match(flow, '^([#%d,]*)(=.*)$')
      flow = least_loaded(flow)
    end
    local id = string.format('%d', math.max(n.last + 1, micros + (rare and 1000 * behind or 0))) -- by the clock of its instants; see rewind
    id = string.rep('0', 16 - #id) .. id
    n.last, n.written, ids[#ids + 1] = id, n.written + 1, id
    if ttl > 0 then
      deadline = whole(now + behind + ttl)
      expiring[#expiring + 1] = deadline
      expiring[#expiring + 1] = id
      due_at(now + behind + ttl)
    end
    if written then
      written(id)
    end
    if of then
      of.written, of.changed = of.written + 1, true
    end
    local record = deadline .. (cost ~= '1' and '*' .. cost or '') .. (of and '@' .. batch or '') .. ':' .. priority .. flow .. owner .. '\1' .. (name or '') .. '\1' .. ARGV[arg + 2]
    sets[id] = record
    if wait > 0 then
      later[#later + 1] = whole(now + behind + wait)
      later[#later + 1] = flow .. '\1' .. priority .. id
    else
      ready = ready + 1
      if add(flow, priority .. id .. ((ttl > 0 or cost ~= '1' or of) and ';' or #record > 8192 and ',' or '.')) and not is_flow[flow] then
        is_flow[flow], flows[#flows + 1] = true, flow
      end
    end
  end
end

if #flows > 0 then
  put(flows)
end
local sooner = 0
if #later > 0 then
  local soonest = tonumber(redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]) or math.huge
  for i = 1, #later, 2 do
    sooner = later[i] + 0 < soonest and 1 or sooner
    due_at(later[i] + 0)
  end
  redis.call('ZADD', delayed, unpack(later))
end
if #expiring > 0 then
  redis.call('ZADD', deadlines, unpack(expiring))
end
if next(names) then
  local fields, times = {}, {}
  for name, id in pairs(names) do
    fields[#fields + 1], times[#times + 1] = name, whole(now + behind + ARGV[2])
    fields[#fields + 1], times[#times + 1] = id, name
  end
  redis.call('HSET', dedupe, unpack(fields))
  redis.call('ZADD', dedupes, unpack(times))
  forget_dedupes(#times) -- twice as many as it adds
end
if next(positions) then
  local fields = {'sources', whole(sources)}
  for source, at in pairs(positions) do
    fields[#fields + 1], fields[#fields + 2] = 'at:' .. source, whole(at)
  end
  redis.call('HSET', K, unpack(fields))
end
for schedule, state in pairs(states) do
  redis.call('HSET', prefix .. 'schedules', 's' .. schedule, state[3])
  redis.call('ZADD', prefix .. 'ticks', state[2], schedule)
  due_at(state[2] + 0)
end
if ARGV[1] ~= '0' and ARGV[1] ~= attempts then
  redis.call('HSET', K, 'attempts', ARGV[1])
  attempts, n.digest = ARGV[1], ''
end
if ARGV[3] ~= '0' and ARGV[3] ~= idle then
  redis.call('HSET', K, 'idle', ARGV[3])
  idle, n.digest = ARGV[3], ''
end
wake(math.max(ready, sooner))
n.sleepers = exists and n.sleepers or 0
answer(table.concat(ids, ' '))
save_batches()
save()
return {0, table.concat(ids, ' '), n.digest}
