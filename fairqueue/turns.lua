-- fragment turns: which tenants may start another message
--
-- A tenant whose handlers are slow must not occupy every handler of those who Consume.
-- With C handlers, of which I are busy, a tenant may start a message if it has none in
-- flight; or if fewer than C - I; or if its handlers took 20 ms or less of late; or if
-- nobody else's message was written or delivered for a minute. A flow whose head may not
-- start leaves active for blocked, at the number that its tenant has in flight, so that
-- those that may start again are found by that number.
--
-- Needs    record
-- Touches  blocked, work
-- Gives    seen(tenant): that something of the tenant was written or delivered
--          may_start(tenant): whether a handler may have another message of the tenant
--          begin(tenant), finish(tenant, took): counts one in flight, or one less that
--          took so many milliseconds, or nil if that says nothing
--          recheck(tenant): gives flows their turn whose head may start again
--          block(flow, tenant): takes a flow's turn away until its tenant may start
--          unblock(room, most): gives at most so many flows their turn, of those whose tenants
--          have fewer than room in flight, or of all without a room
--          book(): stores the tenants' numbers; once, at the end
local blocked, work = prefix .. 'blocked', prefix .. 'work'
local states, busy = {}, numbers.busy

local function seen(tenant)
  if tenant ~= record.tenant then
    changes.others_at, numbers.others_at = numbers.tenant_at, numbers.tenant_at
    changes.tenant, record.tenant = tenant, tenant
  end
  changes.tenant_at, numbers.tenant_at = now, now
end

-- The state of a tenant is how many are in flight, the mean time that they took, -1 if
-- that is unknown, and the flows that it blocks, with \1 between them.
local function state_of(tenant)
  local state = states[tenant]
  if not state then
    local n, mean, flows = string.match(redis.call('HGET', work, tenant) or '0 -1 ', '^(%d+) (%-?%d+) (.*)$')
    state = {n = tonumber(n), mean = tonumber(mean), flows = flows}
    states[tenant] = state
  end
  return state
end

local function may_start(tenant)
  local state = state_of(tenant)
  if state.n == 0 or state.n < numbers.capacity - busy or state.mean >= 0 and state.mean <= 20 then
    return true
  end
  local others = tenant == record.tenant and numbers.others_at or numbers.tenant_at
  return others < now - 60000
end

local function begin(tenant)
  local state = state_of(tenant)
  state.n, state.changed, busy = state.n + 1, true, busy + 1
end

local function release(flow)
  redis.call('ZREM', blocked, flow)
  if redis.call('ZRANGEBYLEX', backlog, '[' .. flow .. '\1', '(' .. flow .. '\2', 'LIMIT', 0, 1)[1] then
    activate(flow, virtual)
  end
end

-- Gives the flows that a tenant blocks their turn, or notes how many it has in flight.
local function recheck(tenant)
  local state = state_of(tenant)
  local flows = state.flows
  if flows ~= '' then
    state.flows, state.changed = '', true
    for flow in string.gmatch(flows, '[^\1]+') do
      if redis.call('ZSCORE', blocked, flow) then
        if may_start(tenant) then
          release(flow)
        else
          redis.call('ZADD', blocked, 'XX', state.n, flow)
          state.flows = state.flows .. flow .. '\1'
        end
      end
    end
  end
end

local function finish(tenant, took)
  local state = state_of(tenant)
  state.n, state.changed, busy = math.max(0, state.n - 1), true, math.max(0, busy - 1)
  if took then
    state.mean = state.mean < 0 and took or math.floor((3 * state.mean + took) / 4)
  end
  recheck(tenant)
end

local function block(flow, tenant)
  local state = state_of(tenant)
  redis.call('ZREM', active, flow)
  redis.call('ZADD', blocked, state.n, flow)
  state.flows, state.changed = state.flows .. flow .. '\1', true
end

local function unblock(room, most)
  for _, flow in ipairs(redis.call('ZRANGEBYSCORE', blocked, '-inf', room and '(' .. room or '(inf', 'LIMIT', 0, most)) do
    if flow ~= '' then
      release(flow)
    end
  end
end

local function book()
  for tenant, state in pairs(states) do
    if state.changed and state.n == 0 then
      redis.call('HDEL', work, tenant)
    elseif state.changed then
      redis.call('HSET', work, tenant, state.n .. ' ' .. state.mean .. ' ' .. state.flows)
    end
  end
  if busy ~= numbers.busy then
    changes.busy = busy
  end
end
