-- fragment record: the queue's record, and the turns of its flows
--
-- Messages lie in flows, which take turns. backlog has every message that waits, as
-- FLOW \1 PRIORITY ID REST with the score 0, so that each flow is in order. active has each
-- flow that may have a turn, at the tag of its head: the virtual time at which it is due. A
-- delivery sets the queue's virtual time to its tag, and tags the flow's next head one turn
-- later. That is self-clocked fair queueing, with tags on heads only.
--
-- Needs    clock
-- Touches  K, active, backlog, messages, weights, blocked, work, flight, delayed, deadlines, dead, deaths, dedupe, dedupes
-- Gives    exists: whether there is a queue
--          virtual: the virtual time
--          n: the numbers that scripts change, by name
--          count(field, by): adds to a counter
--          save(): stores both; not a script's first write
--          last_tenant: whose message was written or delivered last
--          attempts, paused, idle, streams: settings, as texts or false
--          flow_of(member), tenant_of(member): whose a message is
--          range(flow): the two ends of a flow in backlog
--          turn(flow): how long a turn of the flow is
--          activate(flow, at): gives a flow with a head its turn, at a virtual time or one
--          turn from now; a flow that has a turn keeps it
--          broken() -> an error if a key of the queue is missing; before the first write.
--          A key of another type ends the script
local found = redis.call('HMGET', K, 'version', 'numbers', 'tenant', 'attempts', 'paused', 'idle', 'streams', 'weights')
local exists, last_tenant = found[1] == '2', found[3]
local attempts, paused, idle, streams, weights = found[4], found[5], found[6], found[7], found[8]
local backlog, active, messages = prefix .. 'backlog', prefix .. 'active', prefix .. 'messages'
if found[1] and not exists then
  return redis.error_reply('VERSION ' .. found[1])
elseif not exists and (redis.call('EXISTS', messages) == 1 or redis.call('EXISTS', K) == 1 and redis.call('HLEN', K) > 1) then
  return redis.error_reply('BROKEN the version is missing')
end
local n
do
  local a, b, c, d, e, f, g, h, i, j, k, l = string.match(found[2] or '0 0 0 0 0 0 0 0 0 0 0 0',
    '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not a then
    return redis.error_reply('BROKEN the numbers are missing')
  end
  n = {
    virtual = a + 0, last = b + 0, busy = c + 0, capacity = d + 0, sleepers = e + 0, checked = f + 0, tenant_at = g + 0,
    others_at = h + 0, cancelled = i + 0, written = j + 0, delivered = k + 0, acked = l + 0,
  }
end
local virtual = n.virtual

local function whole(number)
  return string.format('%d', number)
end

local counts = {}
local function count(field, by)
  counts[field] = (counts[field] or 0) + by
end

local function save()
  local numbers = string.format('%d %d %d %d %d %d %d %d %d %d %d %d', virtual, n.last, n.busy, n.capacity,
    n.sleepers, n.checked, n.tenant_at, n.others_at, n.cancelled, n.written, n.delivered, n.acked)
  if idle then
    redis.call('HSET', K, 'numbers', numbers, 'tenant', last_tenant or '', 'touched', whole(now))
  elseif last_tenant ~= found[3] then
    redis.call('HSET', K, 'numbers', numbers, 'tenant', last_tenant)
  elseif numbers ~= found[2] then
    redis.call('HSET', K, 'numbers', numbers)
  end
  for field, by in pairs(counts) do
    redis.call('HINCRBY', K, field, by)
  end
end

local function flow_of(member)
  return string.sub(member, 1, string.find(member, '\1', 1, true) - 1)
end

local function tenant_of(member)
  local at = string.find(member, '\1', 1, true)
  if string.byte(member) == 61 then -- =
    return string.sub(member, 1, at - 1)
  end
  return string.sub(member, (string.find(member, '=', at + 18, true)))
end

local function range(flow)
  return '[' .. flow .. '\1', '(' .. flow .. '\2'
end

local function turn(flow)
  local weight = weights and tonumber(redis.call('HGET', prefix .. 'weights', flow) or nil)
  return weight and math.ceil(1000 / weight) or 1000
end

local function activate(flow, at)
  redis.call('ZADD', active, 'NX', whole(at or virtual + turn(flow)), flow)
end

local function broken()
  local good = redis.call('HEXISTS', messages, '') == 1
  for _, name in ipairs({'backlog', 'active', 'blocked', 'flight', 'delayed', 'deadlines', 'dead', 'dedupes'}) do
    good = redis.call('ZSCORE', prefix .. name, '') and good
  end
  for _, name in ipairs({'work', 'deaths', 'dedupe'}) do
    good = redis.call('HEXISTS', prefix .. name, '') == 1 and good
  end
  if not good then
    return redis.error_reply('BROKEN a key is missing')
  end
end
