-- fragment turns: slow tenants, and which tenants may start another message
--
-- A tenant whose handlers are slow must not occupy all handlers of Consume. With C handlers,
-- of which I are busy, a tenant may start a message if it has none in flight; or if it has
-- fewer than C - I; or if its handlers took 20 ms or less recently; or if no other tenant's
-- message was written or delivered for a minute. A flow whose head may not start moves from
-- active to blocked, with the number that its tenant has in flight as score. So the flows that
-- may start again are a range of scores. What limits hold moves in the same way, see limits.
--
-- Needs    record, limits
-- Touches  active, blocked, work, asleep, buckets
-- Gives    tracked: whether there are handlers of Consume, or what they left, or limits. The
--          functions exist only then
--          tenant_of(member): the flow of the tenant whose message it is; it exists always
--          load_states(tenants): reads the states of tenants in one call
--          hindrance(tenant, consumes, stream) -> the key where it has to wait and the score
--          there; nil if a delivery may start, to a handler if consumes
--          hold(flow, tenant, where, score): takes a flow's turn away
--          begin_delivery(tenant, consumes): counts it
--          undo_delivery(tenant, consumes): as if it had not begun
--          end_deliveries(receipts, timed): counts down deliveries that have left flight
--          unblock(room, most) -> whether there may be more: gives at most so many flows their
--          turn, of tenants that have fewer than room in flight, or of all if room is nil, and
--          those of the tenant of the last message if they may start
--          save_states(): stores the states; once, at the end
local tracked = limiting or n.capacity ~= '0' or n.busy ~= '0' or n.blocked ~= '0'
local load_states, hindrance, begin_delivery, undo_delivery, end_deliveries, hold, unblock, save_states

local function tenant_of(member)
  local at = string.find(member, '\1', 1, true)
  if string.byte(member) == 61 then -- =
    return string.sub(member, 1, at - 1)
  end
  return string.sub(member, (string.find(member, '=', at + 18, true)))
end

if tracked then
  local blocked, work, states, rated = prefix .. 'blocked', prefix .. 'work', {}, {}

  -- The state of a tenant is how many are in flight with handlers of Consume, a plus and how
  -- many others are counted if some are, the mean time of the handlers in milliseconds, -1 if
  -- unknown, and the flows that are blocked for it, each with \1 behind.
  function load_states(tenants)
    for i, text in ipairs(redis.call('HMGET', work, unpack(tenants))) do
      local flying, others, mean, flows = string.match(text or '0 -1 ', '^(%d+)%+?(%d*) (%-?%d+) (.*)$')
      states[tenants[i]] = states[tenants[i]] or
        {n = tonumber(flying or 0), others = tonumber(others) or 0, mean = tonumber(mean or -1), flows = flows or ''}
    end
  end

  local function state_of(tenant)
    if not states[tenant] then
      load_states({tenant})
    end
    return states[tenant]
  end

  local function may_start(tenant)
    local state = state_of(tenant)
    return state.n == 0 or state.n < n.capacity - n.busy or state.mean >= 0 and state.mean <= 20 or
      now - (tenant == n.tenant and n.others_at or n.tenant_at) > 60000
  end

  function hindrance(tenant, consumes, stream)
    local where, score
    if epoch and not stream then
      where, score = limit_of(tenant, counting and state_of(tenant), consumes)
    end
    if not where and consumes and not may_start(tenant) then
      return 'blocked', state_of(tenant).n
    end
    return where, score
  end

  function hold(flow, tenant, where, score)
    if where == 'asleep' then
      rated[flow] = true
      nap(flow, score)
      return
    end
    local state = state_of(tenant)
    redis.call('ZREM', active, flow)
    n.blocked = n.blocked + redis.call('ZADD', blocked, whole(score), flow)
    if not string.find('\1' .. state.flows, '\1' .. flow .. '\1', 1, true) then
      state.flows, state.changed = state.flows .. flow .. '\1', true
    end
  end

  local function release(flow)
    n.blocked = math.max(0, n.blocked - redis.call('ZREM', blocked, flow))
    if not plain and bring(flow) then
      freed = freed + 1
    elseif plain and redis.call('ZRANGEBYLEX', backlog, '[' .. flow .. '\1', '(' .. flow .. '\2', 'LIMIT', '0', '1')[1] then
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
      if redis.call('ZSCORE', blocked, flow) then -- else it was released by unblock
        local where, score = hindrance(tenant, n.capacity ~= '0', string.byte(flow) == 35) -- #
        if not where then
          release(flow)
        elseif where == 'asleep' then
          nap(flow, score)
        else
          redis.call('ZADD', blocked, 'XX', whole(score), flow)
          state.flows = state.flows .. flow .. '\1'
        end
      end
    end
  end

  local function count(tenant, consumes, by)
    local state = state_of(tenant)
    local field = consumes and 'n' or 'others'
    state[field], state.changed = math.max(0, state[field] + by), true
    return state
  end

  function begin_delivery(tenant, consumes)
    if consumes then
      n.busy = n.busy + 1
    end
    if consumes or counting then
      count(tenant, consumes, 1)
    end
    if rating then
      take_token(tenant)
    end
  end

  -- A delivery of a kind that is counted, see flight.
  local function discount(tenant, consumes, took)
    local state = count(tenant, consumes, -1)
    if consumes then
      n.busy = math.max(0, n.busy - 1)
      if took then
        state.mean = state.mean < 0 and took or math.floor((3 * state.mean + took) / 4)
      end
    end
    recheck(tenant)
  end

  function undo_delivery(tenant, consumes)
    if rating then
      if rated[tenant] then
        rated[tenant] = nil
        redis.call('ZREM', prefix .. 'asleep', tenant)
      end
      return_token(tenant)
    end
    if consumes or counting then
      discount(tenant, consumes)
    end
  end

  function end_deliveries(receipts, timed)
    local counted, tenants = {}, {}
    for _, receipt in ipairs(receipts) do
      if not string.find(receipt, '^[rR]') then
        counted[#counted + 1] = receipt
        tenants[#tenants + 1] = tenant_of(string.sub(receipt, 39))
      end
    end
    if #tenants > 0 then
      load_states(tenants)
    end
    for i, receipt in ipairs(counted) do
      discount(tenants[i], string.find(receipt, '^[cC]'), timed and math.max(0, now - string.sub(receipt, 18, 30)))
    end
  end

  local function release_range(from, to, most)
    local flows = redis.call('ZRANGEBYSCORE', blocked, from, to, 'LIMIT', '0', most)
    for _, flow in ipairs(flows) do
      release(flow)
    end
    return #flows == most
  end

  function unblock(room, most)
    local base, more = (epoch or 0) * 20000000
    if room then
      more = release_range('-inf', '(' .. whole(room), most)
      more = epoch and release_range('20000000', whole(base + n.capacity), most) or more
    else
      more = release_range('-inf', epoch and '(' .. whole(base + 10000000) or '(inf', most)
    end
    if room and n.tenant ~= '' then
      recheck(n.tenant)
    end
    return more
  end

  function save_states()
    local keep, forget = {}, {}
    for tenant, state in pairs(states) do
      local flying = state.n .. (state.others > 0 and '+' .. state.others or '')
      if state.changed and flying == '0' then
        forget[#forget + 1] = tenant
      elseif state.changed then
        keep[#keep + 1] = tenant
        keep[#keep + 1] = flying .. ' ' .. state.mean .. ' ' .. state.flows
      end
    end
    if #keep > 0 then
      redis.call('HSET', work, unpack(keep))
    end
    if #forget > 0 then
      redis.call('HDEL', work, unpack(forget))
    end
    if rating then
      save_buckets()
    end
  end
end
