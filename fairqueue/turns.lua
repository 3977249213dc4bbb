-- fragment turns: slow tenants, and which tenants may start another message
--
-- A tenant whose handlers are slow must not occupy all handlers of Consume. With C handlers,
-- of which I are busy, a tenant may start a message if it has none in flight; or if it has
-- fewer than C - I; or if its handlers took 20 ms or less recently; or if no other tenant's
-- message was written or delivered for a minute. A flow whose head may not start moves from
-- active to blocked, with the number that its tenant has in flight as score. So the flows that
-- may start again are a range of scores.
--
-- Needs    record
-- Touches  blocked, work
-- Gives    note(tenant): notes that a message of the tenant was written or delivered
--          load_states(tenants): reads the states of tenants in one call
--          may_start(tenant): whether a handler may have another message of the tenant
--          incr_flight(tenant), decr_flight(tenant, took): counts one more in flight, or one
--          less that took so many milliseconds, or nil if that is not to count
--          end_delivery(receipt, timed): counts down a delivery that has left flight
--          recheck(tenant): gives flows their turn whose head may start again
--          block(flow, tenant): takes a flow's turn away until its tenant may start
--          unblock(room, most): gives at most so many flows their turn, of tenants that have
--          fewer than room in flight, or of all if room is nil
--          freed: how many flows got their turn again
--          save_states(): stores the states; once, at the end
local blocked, work = prefix .. 'blocked', prefix .. 'work'
local states, freed = {}, 0

local function note(tenant)
  if tenant ~= last_tenant then
    n.others_at, last_tenant = n.tenant_at, tenant
  end
  n.tenant_at = now
end

-- The state of a tenant is how many are in flight, the mean time of its handlers in
-- milliseconds, -1 if unknown, and the flows that are blocked for it, each with \1 behind.
local function read_state(text)
  local flying, mean, flows = string.match(text or '', '^(%d+) (%-?%d+) (.*)$')
  return {n = tonumber(flying or 0), mean = tonumber(mean or -1), flows = flows or ''}
end

local function load_states(tenants)
  for i, text in ipairs(redis.call('HMGET', work, unpack(tenants))) do
    states[tenants[i]] = states[tenants[i]] or read_state(text)
  end
end

local function state_of(tenant)
  if not states[tenant] then
    states[tenant] = read_state(redis.call('HGET', work, tenant))
  end
  return states[tenant]
end

local function may_start(tenant)
  local state = state_of(tenant)
  return state.n == 0 or state.n < n.capacity - n.busy or state.mean >= 0 and state.mean <= 20 or
    (tenant == last_tenant and n.others_at or n.tenant_at) < now - 60000
end

local function incr_flight(tenant)
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
  if flows == '' then
    return
  end
  state.flows, state.changed = '', true
  for flow in string.gmatch(flows, '[^\1]+') do
    if not redis.call('ZSCORE', blocked, flow) then -- it was released by unblock
    elseif may_start(tenant) then
      release(flow)
    else
      redis.call('ZADD', blocked, 'XX', state.n, flow)
      state.flows = state.flows .. flow .. '\1'
    end
  end
end

local function decr_flight(tenant, took)
  local state = state_of(tenant)
  state.n, state.changed, n.busy = math.max(0, state.n - 1), true, math.max(0, n.busy - 1)
  if took then
    state.mean = state.mean < 0 and took or math.floor((3 * state.mean + took) / 4)
  end
  recheck(tenant)
end

local function end_delivery(receipt, timed)
  local kind = string.byte(receipt)
  if kind == 99 or kind == 67 then -- c, C
    local member = string.sub(receipt, string.find(receipt, ':', 39, true) + 1)
    decr_flight(tenant_of(member), timed and math.max(0, now - string.sub(receipt, 18, 30)))
  end
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
    release(flow)
  end
end

local function save_states()
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
