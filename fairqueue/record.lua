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
--          record[field]: what is stored, a text or false
--          numbers[field]: the fields that scripts change, as numbers; save() stores
--          those of them that were set in changes
--          count(field, n): adds to a counter; not a script's first write
--          flow_of(member), tenant_of(member): whose a message is
--          range(flow): the two ends of a flow in backlog
--          tag(flow): what a turn of the flow costs, behind the virtual time
--          activate(flow, at): gives a flow with a head its turn, at the virtual time at
--          or one turn from now; a flow that has a turn keeps it
local fields = {'version', 'virtual', 'last', 'paused', 'attempts', 'busy', 'capacity', 'sleepers', 'looked',
  'tenant', 'tenant_at', 'others_at', 'idle_after', 'weights', 'streams'}
local record, numbers, changes = {}, {}, {}
for i, value in ipairs(redis.call('HMGET', K, unpack(fields))) do
  record[fields[i]] = value
  numbers[fields[i]] = tonumber(value or 0) or 0
end
local exists = record.version ~= false
if exists and record.version ~= '2' then
  return redis.error_reply('VERSION ' .. record.version)
elseif not exists and redis.call('EXISTS', K) == 1 and redis.call('HLEN', K) > 1 then
  return redis.error_reply('BROKEN the version is missing')
end
local backlog, active, messages = prefix .. 'backlog', prefix .. 'active', prefix .. 'messages'
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now, virtual = math.floor(micros / 1000), numbers.virtual

local function whole(number)
  return string.format('%.0f', number)
end

local function save()
  local words = {}
  if virtual ~= numbers.virtual then
    changes.virtual = virtual
  end
  if record.idle_after then
    changes.touched = now
  end
  for field, value in pairs(changes) do
    words[#words + 1] = field
    words[#words + 1] = type(value) == 'number' and whole(value) or value
  end
  if #words > 0 then
    redis.call('HSET', K, unpack(words))
  end
end

local function count(field, n)
  if n ~= 0 then
    redis.call('HINCRBY', K, field, n)
  end
end

local function flow_of(member)
  return string.sub(member, 1, string.find(member, '\1', 1, true) - 1)
end

local function tenant_of(member)
  if string.sub(member, 1, 1) == '=' then
    return flow_of(member)
  end
  local rest = string.find(member, '\1', 1, true) + 18
  return string.sub(member, string.find(member, '=', rest, true))
end

local function range(flow)
  return '[' .. flow .. '\1', '(' .. flow .. '\2'
end

local function tag(flow)
  local weight = record.weights and tonumber(redis.call('HGET', prefix .. 'weights', flow) or nil)
  return virtual + (weight and math.ceil(1000 / weight) or 1000)
end

local function activate(flow, at)
  redis.call('ZADD', active, 'NX', at or tag(flow), flow)
end
