-- fairqueue.write(K) attempts window idle streams {flows options body} ... -> {0, ids}
--
-- Writes messages, all or none, each to the one of its candidate flows in which the fewest
-- messages wait. A message with a delay lies in delayed until then. Creates the queue if there is
-- none.
--
-- Needs    keys, record, turns, flight, wake, lane
-- Makes    K hash version 2, messages hash, backlog zset 0, active zset, blocked zset, work hash,
--          flight zset, delayed zset, deadlines zset, dead zset, deaths hash, readers hash,
--          dedupe hash, dedupes zset, weights hash
-- KEYS[1]  K
-- ARGV[1]  attempts: the setting to store, how many deliveries a message has; 0 for no change
-- ARGV[2]  window: for how many milliseconds a dedupe id counts
-- ARGV[3]  idle: the setting to store, after how many milliseconds without a write or a read
--          an empty queue is removed, with a '!' behind also a full one; 0 for no change
-- ARGV[4]  streams: that setting as the writer knows it, or the one for a new queue: '' if
--          tenants are flows, 'STREAMS PER_TENANT' if streams are
-- ARGV     for each message: its flow '=TENANT', or its candidates '#1,#7=TENANT';
--          'PRIORITY' or 'PRIORITY DELAY TTL DEDUPE', times in milliseconds and 0 for none;
--          the body, as readers get it. At most 100 messages, fewer where they have candidates
-- Reply    {0, ids with spaces between}; '=' before the id of a message that an earlier
--          write with the same dedupe id wrote. {1, streams} if the setting is another one:
--          then nothing was written
-- Cost     O(log N) a message and candidate
-- Repeat   harmless: the lane knows the answer
if answered then
  return {0, answered}
elseif exists and (streams or '') ~= ARGV[4] then
  return {1, streams or ''}
end

-- A key of another type ends the script here, before the first write.
redis.call('ZCARD', backlog)
redis.call('ZCARD', active)
local some_blocked = redis.call('ZCARD', blocked) > 1

-- The candidate in which the fewest wait, with those that this call adds.
local waiting_in = {}
local function least_loaded(list)
  local best, fewest
  for flow in string.gmatch(list, '#%d+') do
    local n = waiting_in[flow] or redis.call('ZLEXCOUNT', backlog, range(flow))
    waiting_in[flow] = n
    if not fewest or n < fewest then
      best, fewest = flow, n
    end
  end
  waiting_in[best] = fewest + 1
  return best
end

-- The message of an earlier write with the same dedupe id, or false.
local function earlier(name)
  redis.call('HLEN', dedupe)
  return tonumber(redis.call('ZSCORE', dedupes, name) or 0) > now and redis.call('HGET', dedupe, name)
end

local ids, bodies, ready, turns, later, expiring, names, flows = {}, {}, {}, {}, {}, {}, {}, {}
local last = n.last
for arg = 5, #ARGV, 3 do
  local list, tenant = '', ARGV[arg]
  if string.byte(tenant) ~= 61 then -- =
    list, tenant = string.match(tenant, '^([#%d,]*)(=.*)$')
  end
  local priority, delay, ttl, name = ARGV[arg + 1], 0, 0, ''
  if #priority > 1 then
    priority, delay, ttl, name = string.match(priority, '^(.) (%d+) (%d+) (.*)$')
    delay, ttl = tonumber(delay), tonumber(ttl)
  end
  local before = name ~= '' and (names[name] or earlier(name))
  if before then
    ids[#ids + 1] = '=' .. before
  else
    last = math.max(last + 1, micros)
    local id, flow, tail = string.format('%016d', last), tenant, ''
    if list ~= '' then
      flow, tail = least_loaded(list), tenant
    end
    local member = flow .. '\1' .. priority .. id
    bodies[#bodies + 1] = id
    bodies[#bodies + 1] = (ttl > 0 and whole(now + ttl) or '') .. ':' .. priority .. ':' .. #flow + #tail .. ':' .. #name ..
      ':' .. flow .. tail .. name .. ARGV[arg + 2]
    if delay > 0 then
      later[#later + 1] = now + delay
      later[#later + 1] = member .. ';0' .. tail
    else
      ready[#ready + 1] = 0
      ready[#ready + 1] = member .. tail
      if not flows[flow] and not (some_blocked and redis.call('ZSCORE', blocked, flow)) then
        turns[#turns + 1] = whole(virtual + turn(flow))
        turns[#turns + 1] = flow
      end
      flows[flow] = true
    end
    if ttl > 0 then
      expiring[#expiring + 1] = now + ttl
      expiring[#expiring + 1] = id
    end
    if name ~= '' then
      names[name] = id
    end
    ids[#ids + 1] = id
    note(tenant)
  end
end

if #later > 0 then
  redis.call('ZCARD', delayed)
end
if #expiring > 0 then
  redis.call('ZCARD', deadlines)
end
if not exists then
  redis.call('HSET', K, 'version', '2', 'streams', ARGV[4])
  make_keys()
end
if #bodies > 0 then
  redis.call('HSET', messages, unpack(bodies))
end
if #ready > 0 then
  redis.call('ZADD', backlog, unpack(ready))
end
if #turns > 0 then
  redis.call('ZADD', active, 'NX', unpack(turns))
end
local sooner = false
if #later > 0 then
  local soonest = tonumber(redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]) or math.huge
  for i = 1, #later, 2 do
    sooner = sooner or later[i] < soonest
  end
  redis.call('ZADD', delayed, unpack(later))
end
if #expiring > 0 then
  redis.call('ZADD', deadlines, unpack(expiring))
end
if next(names) then
  local fields, times = {}, {}
  for name, id in pairs(names) do
    fields[#fields + 1], times[#times + 1] = name, now + ARGV[2]
    fields[#fields + 1], times[#times + 1] = id, name
  end
  redis.call('HSET', dedupe, unpack(fields))
  redis.call('ZADD', dedupes, unpack(times))
  forget_dedupes(10)
end
n.last, n.written = last, n.written + #bodies / 2
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
wake(math.max(#ready / 2, sooner and 1 or 0))
if not exists then
  n.sleepers = 0
end
save()
return {0, answer(table.concat(ids, ' '))}
