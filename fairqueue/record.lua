-- fragment record: the queue's record, and the turns of its flows
--
-- Messages lie in flows, which take turns. backlog has every message that waits, as
-- FLOW \1 PRIORITY ID REST with the score 0, so that each flow is in order. active has each
-- flow that may have a turn, at the tag of its head: the virtual time at which it is due. A
-- delivery sets the queue's virtual time to its tag, and tags the flow's next head one turn
-- later. That is self-clocked fair queueing, with tags on heads only.
--
-- A function costs each call about a microsecond, and a number that is passed to a command half
-- of one. So scripts that are called often have few functions, and pass texts.
--
-- Needs    clock
-- Touches  K, active, backlog, messages, limits, asleep, buckets, blocked, work, flight, delayed, deadlines, dead, deaths, dedupe, dedupes
-- Gives    exists: whether there is a queue
--          n: what scripts change, by name, as texts. Scripts set texts, or counts of up to 14
--          digits, which is what Lua prints of a number
--          save(): stores them; not a script's first write
--          whole(number): its text
--          note(tenant): notes that a message of the tenant was written or delivered
--          attempts, paused, idle, streams, limits: settings, as texts or false
--          broken(first) -> an error if a key of the queue is missing; before the first write.
--          With first also of those that a first limit needs.
--          A key of another type ends the script
local found = redis.call('HMGET', K, 'version', 'numbers', 'attempts', 'paused', 'idle', 'streams', 'limits')
local exists, attempts, paused, idle, streams, limits = found[1] == '3', found[3], found[4], found[5], found[6], found[7]
local backlog, active, messages = prefix .. 'backlog', prefix .. 'active', prefix .. 'messages'
if found[1] and not exists then
  return redis.error_reply('VERSION ' .. found[1])
elseif not exists and (redis.call('EXISTS', messages) == 1 or redis.call('EXISTS', K) == 1 and redis.call('HLEN', K) > 1) then
  return redis.error_reply('BROKEN the version is missing')
end
local n
do
  local a, b, c, d, e, f, g, h, i, j, k, l, m, tenant = string.match(found[2] or '0 0 0 0 0 0 0 0 0 0 0 0 0 ',
    '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  if not a then
    return redis.error_reply('BROKEN the numbers are missing')
  end
  n = {
    virtual = a, last = b, busy = c, capacity = d, sleepers = e, checked = f, tenant_at = g, others_at = h, cancelled = i,
    written = j, delivered = k, acked = l, blocked = m, tenant = tenant,
  }
end

local function whole(number)
  return string.format('%d', number)
end
local instant = whole(now)

local function save()
  local numbers = n.virtual .. ' ' .. n.last .. ' ' .. n.busy .. ' ' .. n.capacity .. ' ' .. n.sleepers .. ' ' .. n.checked ..
    ' ' .. n.tenant_at .. ' ' .. n.others_at .. ' ' .. n.cancelled .. ' ' .. n.written .. ' ' .. n.delivered .. ' ' .. n.acked ..
    ' ' .. n.blocked .. ' ' .. n.tenant
  if idle then
    redis.call('HSET', K, 'numbers', numbers, 'touched', instant)
  elseif numbers ~= found[2] then
    redis.call('HSET', K, 'numbers', numbers)
  end
end

local function note(tenant)
  if tenant ~= n.tenant then
    n.others_at, n.tenant = n.tenant_at, tenant
  end
  n.tenant_at = instant
end

local function broken(first)
  local good = redis.call('HEXISTS', messages, '') == 1
  for _, name in ipairs({'backlog', 'active', 'blocked', 'flight', 'delayed', 'deadlines', 'dead', 'dedupes'}) do
    good = redis.call('ZSCORE', prefix .. name, '') and good
  end
  for _, name in ipairs({'work', 'deaths', 'dedupe'}) do
    good = redis.call('HEXISTS', prefix .. name, '') == 1 and good
  end
  if limits or first then
    good = (not limits or redis.call('HEXISTS', prefix .. 'limits', '') == 1) and good
    for _, name in ipairs({'asleep', 'buckets'}) do
      good = redis.call('ZSCORE', prefix .. name, '') and good
    end
  end
  if not good then
    return redis.error_reply('BROKEN a key is missing')
  end
end
