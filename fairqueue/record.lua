-- fragment record: the queue's record, the time, and the flows' turns
--
-- Messages lie in flows, which take turns. backlog has every message that waits, as
-- FLOW \1 PRIORITY ID REST, with the score 0, so that each flow is in order. active has
-- each flow that may have its turn, at the tag of its head: the virtual time at which
-- that is due. A delivery sets the queue's virtual time to its tag, and tags the flow's
-- next head one turn later. That is self-clocked fair queueing, with tags on heads only.
--
-- Every key has a member or a field with an empty name, from the first write on: in a
-- slot that moves a key that is missing cannot be told from one that is elsewhere.
--
-- Needs    nothing
-- Touches  K, active, backlog, messages, weights
-- Gives    exists: whether there is a queue
--          now, micros: the server's clock in milliseconds and microseconds
--          virtual: the virtual time
--          n: the numbers that scripts change, by name; save() stores them
--          last_tenant: whose message was written or delivered last
--          attempts, paused, idle, streams: settings, as texts or false
--          count(field, by): adds to a counter; not a script's first write
--          flow_of(member), tenant_of(member): whose a message is
--          range(flow): the two ends of a flow in backlog
--          tag(flow): when the flow's turn is that begins now
--          activate(flow, at): gives a flow with a head its turn, at the virtual time at
--          or one turn from now; a flow that has a turn keeps it
local found = redis.call('HMGET', K, 'version', 'numbers', 'tenant', 'attempts', 'paused', 'idle', 'streams', 'weights')
local exists, last_tenant = found[1] ~= false, found[3]
local attempts, paused, idle, streams, weights = found[4], found[5], found[6], found[7], found[8]
if exists and found[1] ~= '2' then
  return redis.error_reply('VERSION ' .. found[1])
end
local backlog, active, messages = prefix .. 'backlog', prefix .. 'active', prefix .. 'messages'
if not exists and (redis.call('EXISTS', messages) == 1 or redis.call('EXISTS', K) == 1 and redis.call('HLEN', K) > 1) then
  return redis.error_reply('BROKEN the version is missing')
end
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
local n
do
  local a, b, c, d, e, f, g, h, i, j, k, l = string.match(found[2] or '0 0 0 0 0 0 0 0 0 0 0 0',
    '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not a then
    return redis.error_reply('BROKEN the numbers are missing')
  end
  n = {
    virtual = a + 0, last = b + 0, busy = c + 0, capacity = d + 0, sleepers = e + 0, looked = f + 0, tenant_at = g + 0,
    others_at = h + 0, cancelled = i + 0, written = j + 0, delivered = k + 0, acked = l + 0,
  }
end
local virtual = n.virtual

local function whole(number)
  return string.format('%.0f', number)
end

local function save()
  local numbers = string.format('%.0f %.0f %d %d %d %.0f %.0f %.0f %d %.0f %.0f %.0f', virtual, n.last, n.busy, n.capacity,
    n.sleepers, n.looked, n.tenant_at, n.others_at, n.cancelled, n.written, n.delivered, n.acked)
  if idle then
    redis.call('HSET', K, 'numbers', numbers, 'tenant', last_tenant or '', 'touched', whole(now))
  elseif last_tenant ~= found[3] then
    redis.call('HSET', K, 'numbers', numbers, 'tenant', last_tenant)
  elseif numbers ~= found[2] then
    redis.call('HSET', K, 'numbers', numbers)
  end
end

local function count(field, by)
  if by ~= 0 then
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
  return string.sub(member, string.find(member, '=', at + 18, true))
end

local function range(flow)
  return '[' .. flow .. '\1', '(' .. flow .. '\2'
end

local function tag(flow)
  local weight = weights and tonumber(redis.call('HGET', prefix .. 'weights', flow) or nil)
  return virtual + (weight and math.ceil(1000 / weight) or 1000)
end

local function activate(flow, at)
  redis.call('ZADD', active, 'NX', at or tag(flow), flow)
end
