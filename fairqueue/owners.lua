-- fragment owners: slow tenants, and which tenants may start another message
--
-- A tenant whose handlers are slow must not occupy all handlers of Consume. With C handlers,
-- of which I are busy, a tenant may start a message if it has none in flight; or if it has
-- fewer than C - I; or if its handlers took 20 ms or less recently; or if no other tenant's
-- message was delivered for a minute, and none waits. A flow whose head may not start moves from
-- active to blocked, with the number that its tenant has in flight as score. So the flows that
-- may start again are a range of scores. Flows that limits hold move in the same way, see limits.
--
-- The state of an owner is the field o=TENANT of hot, of numbers of eight bytes: how many are in flight with handlers of
-- Consume, the mean time of its handlers in milliseconds, -1 if unknown, and how many others are counted. Behind them is,
-- if it is rare, '1' if limits of its own are stored or '0', and the flows that are blocked for it, each with \1 behind.
-- An owner has no state if it has none in flight, unless its flow, which is no stream, has messages: so its mean is
-- remembered.
--
-- Needs    record, flows, limits, quick
-- Touches  hot, active, blocked, asleep, buckets
-- Gives    only: the only tenant's flow that may be alone, or nil or false for any; work sets it
--          load_states(owners): reads the states of owners in one call
--          state_of(owner): one of them
--          place_to_wait(owner, consumes, stream, cost) -> the key where it has to wait and the score
--          there; nil if a delivery of that cost, 1 by default, may start, to a handler if consumes. stream is the
--          flow, nil for that of a tenant
--          hold(flow, owner, where, score): takes a flow's turn away
--          begin_delivery(owner, kind): counts one of a kind: c of a handler, o counted for limits, r not
--          counted
--          end_delivery(owner, kind, took, stream): counts one down that took so many milliseconds, or nil
--          unblock(room, most) -> whether there may be more: gives at most so many flows their
--          turn, of tenants that have fewer than room in flight, or of all if room is nil, and
--          those of the tenant of the last message, or of another one that is alone, if they may start
--          leave(flow): a flow without messages has no turn
--          save_states(): puts the states into sets and gone; once, before save
local blocked, states, only = prefix .. 'blocked', {}, nil
local recheck

-- A score of blocked, which counts handlers in thousandths.
local function exact(score)
  return string.format('%.3f', score)
end

local function load_states(owners)
  local names = {}
  for i, owner in ipairs(owners) do
    names[i] = 'o' .. owner
  end
  for i, text in ipairs(redis.call('HMGET', hot, unpack(names))) do
    if not states[owners[i]] then
      local state = {n = 0, mean = -1, others = 0, flows = ''}
      if text then
        state.n, state.mean, state.others = struct.unpack('<ddd', text)
        state.limited, state.flows = string.byte(text, 25) == 49, string.sub(text, 26) -- 1
      end
      states[owners[i]] = state
    end
  end
end

local function state_of(owner)
  if not states[owner] then
    load_states({owner})
  end
  return states[owner]
end

local function may_start(owner)
  local state = states[owner]
  return state.n == 0 or state.n < n.capacity - n.busy or state.mean >= 0 and state.mean <= 20 or
    (only or owner) == owner and now - (owner == n.tenant and n.others or n.since) > 60000 and
    ((streams or '') ~= '' or redis.call('ZCARD', active) + n.blocked <= 3) -- the placeholders, and its own flow
end

local function place_to_wait(owner, consumes, stream, cost)
  local where, score
  local state = state_of(owner)
  if stream and state.n + state.others == 0 and state.mean < 0 and is_quick(redis.call('HGET', hot, 'q' .. stream), owner) then
    state.mean = 0
  end
  if epoch and not stream then
    where, score = limit_of(owner, state, consumes, cost)
  end
  if not where and consumes and not may_start(owner) then
    return 'blocked', state.n
  end
  return where, score
end

local function hold(flow, owner, where, score)
  if where == 'asleep' then
    suspend(flow, score)
    return
  end
  local state = state_of(owner)
  redis.call('ZREM', active, flow)
  n.blocked = n.blocked + redis.call('ZADD', blocked, exact(score), flow)
  if not string.find('\1' .. state.flows, '\1' .. flow .. '\1', 1, true) then
    state.flows, state.changed = state.flows .. flow .. '\1', true
  end
end

local function release(flow)
  n.blocked = math.max(0, n.blocked - redis.call('ZREM', blocked, flow))
  if activate(flow) then
    freed = freed + 1
  end
end

-- Gives flows their turn whose owner may start again.
function recheck(owner)
  local state = state_of(owner)
  local flows = state.flows
  if flows == '' then
    return
  end
  state.flows, state.changed = '', true
  for flow in string.gmatch(flows, '[^\1]+') do
    local at = redis.call('ZSCORE', blocked, flow)
    if at then -- else it was released by unblock
      local where, score = place_to_wait(owner, n.capacity > 0, string.match(flow, '^#.*'))
      if not where then
        release(flow)
      elseif where == 'asleep' then
        suspend(flow, score)
      else
        if flow == owner or score < at + 0 then -- a stream may be held for another owner by now
          redis.call('ZADD', blocked, exact(score), flow)
        end
        state.flows = state.flows .. flow .. '\1'
      end
    end
  end
end

local function begin_delivery(owner, kind)
  local state = state_of(owner)
  if kind == 'c' then
    n.busy, state.n, state.changed = n.busy + 1, state.n + 1, true
  elseif kind == 'o' then
    state.others, state.changed = state.others + 1, true
  end
end

local function end_delivery(owner, kind, took, stream)
  kind = string.lower(kind)
  if kind == 'r' then
    return
  end
  local state = state_of(owner)
  state.changed, state.stream = true, stream
  if kind == 'o' then
    state.others = math.max(0, state.others - 1)
  else
    n.busy, state.n = math.max(0, n.busy - 1), math.max(0, state.n - 1)
    if took then
      state.mean = state.mean < 0 and took or math.floor((3 * state.mean + took) / 4)
    end
  end
  recheck(owner)
end

local function release_range(from, to, most)
  local flows = redis.call('ZRANGEBYSCORE', blocked, from, to, 'LIMIT', '0', most)
  for _, flow in ipairs(flows) do
    release(flow)
  end
  return #flows == most
end

local function unblock(room, most)
  local base, more = (epoch or 0) * 20000000
  if room then
    more = release_range('-inf', '(' .. exact(room), most)
    more = epoch and release_range('20000000', exact(base + n.capacity), most) or more
  else
    more = release_range('-inf', epoch and '(' .. whole(base + 10000000) or '(inf', most)
  end
  if room and n.tenant ~= '' then
    recheck(n.tenant)
  end
  if room and now - n.since > 60000 then -- another tenant may be alone
    local flow = redis.call('ZRANGEBYSCORE', blocked, '-inf', '(20000000', 'LIMIT', '0', '1')[1]
    local body = flow and string.byte(flow) == 35 and head(flow) and redis.call('HGET', hot, string.sub(head(flow), 2, 17)) -- #
    flow = flow and string.byte(flow) == 61 and flow or string.match(body or '', '^[%d*@,]*:%d#%d+(=[^\1]*)') -- =
    if flow then
      recheck(flow)
    end
  end
  return more
end

local function leave(flow)
  redis.call('ZREM', active, flow)
  n.blocked = math.max(0, n.blocked - redis.call('ZREM', blocked, flow))
end

local function save_states()
  for flow in pairs(emptied) do
    state_of(flow).changed = true
  end
  for owner, state in pairs(states) do
    if state.changed then
      local rare = state.limited or state.flows ~= ''
      if state.n + state.others == 0 and not rare and not (string.byte(owner) == 61 and record_of(owner)) then -- =
        gone['o' .. owner] = true
        if state.stream and record_of(state.stream) then
          local field = 'q' .. state.stream
          sets[field] = remember(sets[field] or redis.call('HGET', hot, field), owner, state.mean) or nil
        end
      else
        sets['o' .. owner] = struct.pack('<ddd', state.n, state.mean, state.others) ..
          (rare and (state.limited and '1' or '0') .. state.flows or '')
      end
    end
  end
  if rating then
    save_buckets()
  end
end
