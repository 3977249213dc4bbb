-- fairqueue.write(K) attempts window idle streams {flows options body} ... -> {0, ids}
--
-- Writes messages, all or none, each to the one of its candidate flows in which the fewest
-- messages wait. A message with a delay lies in delayed until then. Creates the queue if there is
-- none.
--
-- Needs    record, plain, limits, create, dedupes, wake, lane
-- KEYS[1]  K
-- ARGV[1]  attempts: the setting to store, how many deliveries a message has; 0 for no change
-- ARGV[2]  window: for how many milliseconds a dedupe id counts
-- ARGV[3]  idle: the setting to store, after how many milliseconds without a write or a read
--          an empty queue is removed, with a '!' behind also a full one; 0 for no change
-- ARGV[4]  streams: that setting as the writer knows it, or the one for a new queue: '' if
--          tenants are flows, 'STREAMS PER_TENANT' if streams are
-- ARGV     for each message: its flow '=TENANT', or its candidates '#1,#7=TENANT';
--          'PRIORITY' or 'PRIORITY DELAY TTL NAME', times in milliseconds and 0 for none; NAME is
--          a dedupe id, or '@POSITION SOURCE', or '!DUE\1WAS\1BECOMES\1SCHEDULE' for the tick of a
--          schedule in the state WAS, which becomes BECOMES, with the id for '?', and ticks again
--          at DUE; the body, as readers get it. At most 100 messages, fewer where they have
--          candidates
-- Reply    {0, ids with spaces between}; '=' before the id of a message that an earlier
--          write with the same dedupe id wrote, '=' alone for a position that was written before,
--          or a schedule that has another state or is not due.
--          '?AT' for a position that is not written because its source is at AT, '?' because the
--          queue has no room for another source; '!' for a message that is not written because
--          as many of its tenant wait as may. {1, streams} if the setting is another one:
--          then nothing was written
-- Cost     O(log N) a message and candidate
-- Repeat   harmless: the lane knows the answer. A request that its client repeats tries again
--          what was refused
if answered and not (keyed and string.find(' ' .. answered, ' [!?]')) then
  return {0, answered}
elseif exists and (streams or '') ~= ARGV[4] then
  return {1, streams or ''}
end
local earlier -- what an earlier try wrote, by the number of the message
if answered then
  earlier = {}
  for id in string.gmatch(answered, '%S+') do
    earlier[#earlier + 1] = not string.find(id, '^[!?]') and id
  end
end

local delayed, deadlines = prefix .. 'delayed', prefix .. 'deadlines'
local ids, bodies, ready, flows = {}, {}, {}, {}
local later, expiring, names, positions, states -- rare
local sources, most_sources = 0, 1000
local last, next_turn = n.last + 0, whole(n.virtual + quantum)

-- The candidate in which the fewest wait, with those that this call adds.
local least_loaded
if ARGV[4] ~= '' then
  local waiting_in = {}
  function least_loaded(list)
    local best, fewest
    for flow in string.gmatch(list, '#%d+') do
      local n = waiting_in[flow] or redis.call('ZLEXCOUNT', backlog, '[' .. flow .. '\1', '(' .. flow .. '\2')
      waiting_in[flow] = n
      if not fewest or n < fewest then
        best, fewest = flow, n
      end
    end
    waiting_in[best] = fewest + 1
    return best
  end
end

-- Whether as many messages of a tenant wait as may, with those that this call adds.
local waiting_of, is_full
if epoch and string.find(kinds, 'w', 1, true) then
  local tenants = {}
  for arg = 5, #ARGV, 3 do
    tenants[#tenants + 1] = ARGV[arg]
  end
  load_rules(tenants)
end
if epoch and string.find(kinds, 'm', 1, true) then
  waiting_of = {}
  function is_full(flow)
    local most = rule_of(flow).waiting or 0
    if most > 0 then
      local waiting = waiting_of[flow] or redis.call('ZLEXCOUNT', backlog, '[' .. flow .. '\1', '(' .. flow .. '\2')
      waiting_of[flow] = math.min(most, waiting + 1)
      return waiting >= most
    end
  end
end

for arg = 5, #ARGV, 3 do
  local tenant, priority, name, tail, deadline, delay, before = ARGV[arg], ARGV[arg + 1], '', '', '', 0, earlier and earlier[(arg - 2) / 3]
  local flow, ttl, source, position, due, becomes, schedule = tenant, 0
  if not before and #priority > 1 then
    priority, delay, ttl, name = string.match(priority, '^(.) (%d+) (%d+) (.*)$')
    delay, ttl = tonumber(delay), tonumber(ttl)
    position, source = string.match(name, '^@(%d+) (.*)$')
    if source then
      positions, name, position = positions or {}, '', tonumber(position)
      sources = sources > 0 and sources or tonumber(redis.call('HGET', K, 'sources') or 0)
      local at = positions[source] or tonumber(redis.call('HGET', K, 'at:' .. source) or 0)
      if position <= at then
        before = '='
      elseif position > at + 1 then
        before = '?' .. whole(at)
      elseif at == 0 and sources >= most_sources then
        before = '?'
      end
    elseif string.byte(name) == 33 then -- !
      local was
      due, was, becomes, schedule = string.match(name, '^!(%d+)\1([^\1]*)\1([^\1]*)\1(.*)$')
      states, name = states or {}, ''
      local state = states[schedule] or
        {redis.call('HGET', prefix .. 'schedules', 's' .. schedule), redis.call('ZSCORE', prefix .. 'ticks', schedule)}
      before = not (state[1] == was and state[2] and tonumber(state[2]) <= now) and '='
    elseif name ~= '' then -- perhaps an earlier write had it
      names = names or {}
      redis.call('HLEN', dedupe)
      before = names[name] or tonumber(redis.call('ZSCORE', dedupes, name) or 0) > now and redis.call('HGET', dedupe, name)
      before = before and '=' .. before
    end
  end
  if not before and is_full and delay == 0 and is_full(tenant) then
    before = '!'
  end
  if before then
    ids[#ids + 1] = before
  else
    if least_loaded then
      flow, tenant = string.match(tenant, '^([#%d,]*)(=.*)$')
      flow, tail = least_loaded(flow), tenant
    end
    last = math.max(last + 1, micros)
    local id = string.format('%016d', last)
    if ttl > 0 then
      deadline, expiring = whole(now + ttl), expiring or {}
      expiring[#expiring + 1] = deadline
      expiring[#expiring + 1] = id
    end
    if name ~= '' then
      names[name] = id
    end
    if source then
      positions[source] = position
      sources = sources + (position == 1 and 1 or 0)
    end
    if schedule then
      states[schedule] = {becomes, due, (string.gsub(becomes, '?', id, 1))}
    end
    ids[#ids + 1] = id
    bodies[#bodies + 1] = id
    bodies[#bodies + 1] = deadline .. ':' .. priority .. flow .. tail .. '\1' .. name .. '\1' .. ARGV[arg + 2]
    if delay > 0 then
      later = later or {}
      later[#later + 1] = now + delay
      later[#later + 1] = flow .. '\1' .. priority .. id .. ';0' .. tail
    else
      ready[#ready + 1] = '0'
      ready[#ready + 1] = flow .. '\1' .. priority .. id .. tail
      if not flows[flow] then
        flows[flow] = true
        flows[#flows + 1] = flow
      end
    end
    note(tenant)
  end
end

-- A key of another type ends the script here, before the first write.
if later then
  redis.call('ZCARD', delayed)
end
if expiring then
  redis.call('ZCARD', deadlines)
end
redis.call('ZCARD', active)
redis.call('ZCARD', backlog)
if epoch then
  redis.call('ZCARD', prefix .. 'asleep')
end
if not exists then
  create(ARGV[4])
end
if #bodies > 0 then
  redis.call('HSET', messages, unpack(bodies))
end
if #ready > 0 then
  redis.call('ZADD', backlog, unpack(ready))
end
if not plain and #flows > 0 then
  put(flows)
elseif #flows > 0 then
  local turns = {}
  local held = n.blocked ~= '0' and redis.call('ZMSCORE', prefix .. 'blocked', unpack(flows)) or {}
  for i, flow in ipairs(flows) do
    if not held[i] then
      turns[#turns + 1] = next_turn
      turns[#turns + 1] = flow
    end
  end
  if #turns > 0 then
    redis.call('ZADD', active, 'NX', unpack(turns))
  end
end
local sooner = 0
if later then
  local soonest = tonumber(redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]) or math.huge
  for i = 1, #later, 2 do
    sooner = later[i] < soonest and 1 or sooner
  end
  redis.call('ZADD', delayed, unpack(later))
end
if expiring then
  redis.call('ZADD', deadlines, unpack(expiring))
end
if names then
  local fields, times = {}, {}
  for name, id in pairs(names) do
    fields[#fields + 1], times[#times + 1] = name, whole(now + ARGV[2])
    fields[#fields + 1], times[#times + 1] = id, name
  end
  if #fields > 0 then
    redis.call('HSET', dedupe, unpack(fields))
    redis.call('ZADD', dedupes, unpack(times))
  end
  forget_dedupes(10)
end
if positions and next(positions) then
  local fields = {'sources', whole(sources)}
  for source, at in pairs(positions) do
    fields[#fields + 1], fields[#fields + 2] = 'at:' .. source, whole(at)
  end
  redis.call('HSET', K, unpack(fields))
end
for schedule, state in pairs(states or {}) do
  redis.call('HSET', prefix .. 'schedules', 's' .. schedule, state[3])
  redis.call('ZADD', prefix .. 'ticks', state[2], schedule)
end
n.last, n.written = string.format('%016d', last), whole(n.written + #bodies / 2)
if ARGV[1] ~= '0' and ARGV[1] ~= attempts then
  redis.call('HSET', K, 'attempts', ARGV[1])
end
if ARGV[3] ~= '0' and ARGV[3] ~= idle then
  redis.call('HSET', K, 'idle', ARGV[3])
  idle = ARGV[3]
end
if not exists then
  n.sleepers = 64 -- readers may wait for a queue that did not exist
end
if n.sleepers ~= '0' then
  wake(math.max(#ready / 2, sooner))
end
n.sleepers = exists and n.sleepers or '0'
save()
return {0, answer(table.concat(ids, ' '))}
