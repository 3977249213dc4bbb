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
-- Gives    tracked: whether there are handlers of Consume, or what they left. The functions
--          exist only then
--          tenant_of(member): whose a message is; it exists always
--          freed: how many flows got their turn again
--          may_start(tenant): whether a handler may have another message of the tenant
--          load_states(tenants): reads the states of tenants in one call
--          incr_flight(tenant), decr_flight(tenant, took): counts one more in flight, or one
--          less that took so many milliseconds, or nil if that is not to count
--          end_delivery(receipt, timed): counts down a delivery that has left flight
--          block(flow, tenant): takes a flow's turn away until its tenant may start
--          unblock(room, most): gives at most so many flows their turn, of tenants that have
--          fewer than room in flight, or of all if room is nil, and those of the tenant of
--          the last message if they may start
--          save_states(): stores the states; once, at the end
local tracked, freed = n.capacity ~= '0' or n.busy ~= '0' or n.blocked ~= '0', 0
local load_states, may_start, incr_flight, decr_flight, end_delivery, block, unblock, save_states

local function tenant_of(member)
  local at = string.find(member, '\1', 1, true)
  if string.byte(member) == 61 then -- =
    return string.sub(member, 1, at - 1)
  end
  return string.sub(member, (string.find(member, '=', at + 18, true)))
end

if tracked then
  local blocked, work, states = prefix .. 'blocked', prefix .. 'work', {}

  -- The state of a tenant is how many are in flight, the mean time of its handlers in
  -- milliseconds, -1 if unknown, and the flows that are blocked for it, each with \1 behind.
  function load_states(tenants)
    for i, text in ipairs(redis.call('HMGET', work, unpack(tenants))) do
      local flying, mean, flows = string.match(text or '0 -1 ', '^(%d+) (%-?%d+) (.*)$')
      states[tenants[i]] = states[tenants[i]] or {n = tonumber(flying or 0), mean = tonumber(mean or -1), flows = flows or ''}
    end
  end

  local function state_of(tenant)
    if not states[tenant] then
      load_states({tenant})
    end
    return states[tenant]
  end

  function may_start(tenant)
    local state = state_of(tenant)
    return state.n == 0 or state.n < n.capacity - n.busy or state.mean >= 0 and state.mean <= 20 or
      now - (tenant == n.tenant and n.others_at or n.tenant_at) > 60000
  end

  function incr_flight(tenant)
    local state = state_of(tenant)
    state.n, state.changed, n.busy = state.n + 1, true, n.busy + 1
  end

  local function release(flow)
    n.blocked = math.max(0, n.blocked - redis.call('ZREM', blocked, flow))
    if redis.call('ZRANGEBYLEX', backlog, '[' .. flow .. '\1', '(' .. flow .. '\2', 'LIMIT', '0', '1')[1] then
      redis.call('ZADD', active, 'NX', n.virtual, flow)
      freed = freed + 1
    end
  end

  -- Gives flows their turn whose tenant may start again.
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

  function decr_flight(tenant, took)
    local state = state_of(tenant)
    state.n, state.changed, n.busy = math.max(0, state.n - 1), true, math.max(0, n.busy - 1)
    if took then
      state.mean = state.mean < 0 and took or math.floor((3 * state.mean + took) / 4)
    end
    recheck(tenant)
  end

  function end_delivery(receipt, timed)
    local kind = string.byte(receipt)
    if kind == 99 or kind == 67 then -- c, C
      decr_flight(tenant_of(string.sub(receipt, 39)), timed and math.max(0, now - string.sub(receipt, 18, 30)))
    end
  end

  function block(flow, tenant)
    local state = state_of(tenant)
    redis.call('ZREM', active, flow)
    n.blocked = n.blocked + redis.call('ZADD', blocked, state.n, flow)
    if not string.find('\1' .. state.flows, '\1' .. flow .. '\1', 1, true) then
      state.flows, state.changed = state.flows .. flow .. '\1', true
    end
  end

  function unblock(room, most)
    for _, flow in ipairs(redis.call('ZRANGEBYSCORE', blocked, '-inf', room and '(' .. room or '(inf', 'LIMIT', '0', most)) do
      release(flow)
    end
    if room and n.tenant ~= '' then
      recheck(n.tenant)
    end
  end

  function save_states()
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
end
