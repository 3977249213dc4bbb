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
--          know(tenants): reads the numbers of tenants in one call
--          may_start(tenant): whether a handler may have another message of the tenant
--          begin(tenant), finish(tenant, took): counts one in flight, or one less that
--          took so many milliseconds, or nil if that says nothing
--          recheck(tenant): gives flows their turn whose head may start again
--          block(flow, tenant): takes a flow's turn away until its tenant may start
--          unblock(room, most): gives at most so many flows their turn, of those whose
--          tenants have fewer than room in flight, or of all without a room
--          land(receipt, took): counts a delivery down that has been taken out of flight
--          freed: how many flows were given their turn again
--          book(): stores the tenants' numbers; once, at the end
local blocked, work = prefix .. 'blocked', prefix .. 'work'
local states, freed = {}, 0

local function seen(tenant)
  if tenant ~= last_tenant then
    n.others_at, last_tenant = n.tenant_at, tenant
  end
  n.tenant_at = now
end

-- The state of a tenant is how many are in flight, the mean time that they took, -1 if
-- that is unknown, and the flows that it blocks, with \1 between them.
local function read_state(text)
  local flying, mean, flows = string.match(text or '', '^(%d+) (%-?%d+) (.*)$')
  return {n = tonumber(flying or 0), mean = tonumber(mean or -1), flows = flows or ''}
end

local function know(tenants)
  local unknown, listed = {}, {}
  for _, tenant in ipairs(tenants) do
    if not states[tenant] and not listed[tenant] then
      listed[tenant] = true
      unknown[#unknown + 1] = tenant
    end
  end
  if #unknown > 0 then
    for i, text in ipairs(redis.call('HMGET', work, unpack(unknown))) do
      states[unknown[i]] = read_state(text)
    end
  end
end

local function state_of(tenant)
  local state = states[tenant]
  if not state then
    state = read_state(redis.call('HGET', work, tenant))
    states[tenant] = state
  end
  return state
end

local function may_start(tenant)
  local state = state_of(tenant)
  if state.n == 0 or state.n < n.capacity - n.busy or state.mean >= 0 and state.mean <= 20 then
    return true
  end
  return (tenant == last_tenant and n.others_at or n.tenant_at) < now - 60000
end

local function begin(tenant)
  local state = state_of(tenant)
  state.n, state.changed, n.busy = state.n + 1, true, n.busy + 1
end

local function release(flow)
  redis.call('ZREM', blocked, flow)
  local from, to = range(flow)
  if redis.call('ZRANGEBYLEX', backlog, from, to, 'LIMIT', 0, 1)[1] then
    activate(flow, virtual)
    freed = freed + 1
  end
end

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
  state.n, state.changed, n.busy = math.max(0, state.n - 1), true, math.max(0, n.busy - 1)
  if took then
    state.mean = state.mean < 0 and took or math.floor((3 * state.mean + took) / 4)
  end
  recheck(tenant)
end

local function block(flow, tenant)
  local state = state_of(tenant)
  redis.call('ZREM', active, flow)
  redis.call('ZADD', blocked, state.n, flow)
  if not string.find('\1' .. state.flows, '\1' .. flow .. '\1', 1, true) then
    state.flows, state.changed = state.flows .. flow .. '\1', true
  end
end

local function unblock(room, most)
  for _, flow in ipairs(redis.call('ZRANGEBYSCORE', blocked, '-inf', room and '(' .. room or '(inf', 'LIMIT', 0, most)) do
    if flow ~= '' then
      release(flow)
    end
  end
end

local function book()
  local keep, forget = {}, {}
  for tenant, state in pairs(states) do
    if state.changed and state.n == 0 then
      forget[#forget + 1] = tenant
    elseif state.changed then
      keep[#keep + 1] = tenant
      keep[#keep + 1] = state.n .. ' ' .. state.mean .. ' ' .. state.flows
    end
  end
  if #keep > 0 then
    redis.call('HSET', work, unpack(keep))
  end
  if #forget > 0 then
    redis.call('HDEL', work, unpack(forget))
  end
end

-- Counts a delivery down that has been taken out of flight.
local function land(receipt, took)
  local how = string.byte(receipt)
  if how == 99 or how == 67 then -- c, C
    local member = string.sub(receipt, string.find(receipt, ':', 39, true) + 1)
    finish(tenant_of(member), took and math.max(0, now - string.sub(receipt, 18, 30)))
  end
end
