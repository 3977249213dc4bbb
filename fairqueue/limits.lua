-- fragment limits: accounts, and limits of tenants and accounts
--
-- What takes turns is a unit: an account, written @ACCOUNT, or a flow: a tenant without an
-- account, or a stream. The tenants of an account are flows =ACCOUNT\2cTENANT, which take turns
-- inside: ring has UNIT\1FLOW for each of them with messages that may start. An owner is a unit
-- or a flow. The flow of an owner that may not start lies in blocked until something else
-- happens, or in asleep until an instant; so does a unit.
--
-- A score of blocked below 20,000,000 is that of the slow-tenant rule. Above, it is
-- 20,000,000 * EPOCH plus the number of handlers with which MaxShare allows another delivery,
-- or plus 10,000,000 if only a change of the owner helps. A change of the default limits
-- starts another epoch, so those that it may concern are a range of scores.
--
-- A score of asleep is in milliseconds. One by a rate has half a millisecond less, so that it
-- can be told from a pause, which is whole.
--
-- Needs    record
-- Touches  K, limits, asleep, buckets, ring, debts, active, blocked, backlog, work
-- Gives    epoch: a number if there may be limits, else nil; load_rules, rule_of and limit_of
--          exist only then
--          by_time: whether turns are shared by time
--          unit_of(flow): its unit
--          turn(unit): how much later the next turn of the unit is
--          held(owner): whether it is blocked or asleep
--          put(flow, wait): gives a flow with messages its turn, in so much virtual time,
--          unless it or its unit is held -> whether its unit has a turn
--          put_unit(unit, wait): the same for a unit
--          leave(owner): takes its turn away
--          bring(owner): gives it its turn if it has messages -> whether its unit has one
--          forget_account(unit): forgets which tenant of an account was last, if none has messages
--          enable(): notes that there are limits
--          nap(owner, score): has it sleep, at least until then
--          charge(unit, took): moves its next turn by the time that a delivery took
--          earlier: 1 if an owner fell asleep that wakes before all others, else 0
--          load_rules(owners): reads limits and buckets of owners
--          rule_of(owner): its limits
--          limit_of(owner, state, consumes): the key where it has to wait, and the score there;
--          nil if a delivery may start
--          take_token(owner), return_token(owner): counts a delivery for the rate
--          save_buckets(): stores the buckets; once, at the end
local epoch, by_time, naps_known, earlier = tonumber(limits or nil), fair == 'time', limits, 0
local quantum = by_time and 100 or 1000
local load_rules, rule_of, limit_of, take_token, return_token, save_buckets

local function unit_of(flow)
  local at = string.byte(flow) == 61 and string.find(flow, '\2c', 1, true) -- =
  return at and '@' .. string.sub(flow, 2, at - 1) or flow
end

local function turn(unit)
  local weight = rule_of and rule_of(unit).weight or 1
  return math.max(1, math.ceil(quantum / weight))
end

local function held(owner)
  return n.blocked ~= '0' and redis.call('ZSCORE', prefix .. 'blocked', owner) or
    naps_known and redis.call('ZSCORE', prefix .. 'asleep', owner)
end

local function put_unit(unit, wait)
  if held(unit) then
    return false
  end
  local from = tonumber(n.virtual)
  local debt = by_time and redis.call('ZSCORE', prefix .. 'debts', unit)
  if debt then
    redis.call('ZREM', prefix .. 'debts', unit)
    from = math.max(from, debt)
  end
  redis.call('ZADD', active, 'NX', whole(from + wait), unit)
  return true
end

local function put(flow, wait)
  if held(flow) then
    return false
  end
  local unit = unit_of(flow)
  if unit ~= flow then
    redis.call('ZADD', prefix .. 'ring', '0', unit .. '\1' .. flow)
  end
  return put_unit(unit, wait)
end

local function leave(owner)
  local unit = unit_of(owner)
  if unit ~= owner then
    redis.call('ZREM', prefix .. 'ring', unit .. '\1' .. owner)
    return
  end
  local tag = by_time and redis.call('ZSCORE', active, owner)
  if tag and tonumber(tag) > tonumber(n.virtual) then
    redis.call('ZADD', prefix .. 'debts', tag, owner)
  end
  redis.call('ZREM', active, owner)
end

local function forget_account(unit)
  local flow = '=' .. string.sub(unit, 2) .. '\2'
  if not redis.call('ZRANGEBYLEX', backlog, '[' .. flow .. 'c', '(' .. flow .. 'd', 'LIMIT', '0', '1')[1] then
    redis.call('HDEL', prefix .. 'work', unit .. '\1')
  end
end

local function bring(owner)
  if string.byte(owner) == 64 then -- @
    local member = redis.call('ZRANGEBYLEX', prefix .. 'ring', '[' .. owner .. '\1', '(' .. owner .. '\2', 'LIMIT', '0', '1')[1]
    if not member then
      forget_account(owner)
    end
    return member and put_unit(owner, 0)
  end
  return redis.call('ZRANGEBYLEX', backlog, '[' .. owner .. '\1', '(' .. owner .. '\2', 'LIMIT', '0', '1')[1] and put(owner, 0)
end

local function enable()
  if not naps_known then
    naps_known = '1'
    redis.call('HSETNX', prefix .. 'limits', '', '0')
    redis.call('ZADD', prefix .. 'ring', 'NX', 0, '')
    for _, name in ipairs({'asleep', 'buckets', 'debts'}) do
      redis.call('ZADD', prefix .. name, 'NX', '+inf', '')
    end
    redis.call('HSET', K, 'limits', '1')
  end
end

local function nap(owner, score)
  enable()
  local asleep = prefix .. 'asleep'
  local until_now = tonumber(redis.call('ZSCORE', asleep, owner) or nil) or 0
  if score == math.floor(score) and until_now < math.huge and until_now ~= math.floor(until_now) then
    until_now = 0 -- it slept by its rate, which the next read finds again
  end
  if score > until_now then
    local first = tonumber(redis.call('ZRANGE', asleep, '0', '0', 'WITHSCORES')[2]) or math.huge
    earlier = score < first and 1 or earlier
    redis.call('ZADD', asleep, score == math.huge and '+inf' or string.format('%.1f', score), owner)
  end
  n.blocked = math.max(0, n.blocked - redis.call('ZREM', prefix .. 'blocked', owner))
  leave(owner)
end

local function charge(unit, took)
  local cost = math.ceil(took * quantum / (rule_of and rule_of(unit).weight or 1))
  local tag = redis.call('ZSCORE', active, unit)
  if tag then
    redis.call('ZADD', active, 'XX', whole(tag + cost), unit)
  else
    local debt = redis.call('ZSCORE', prefix .. 'debts', unit)
    redis.call('ZADD', prefix .. 'debts', whole(math.max(n.virtual, debt or 0) + cost), unit)
  end
end

if epoch then
  local rules, buckets, none, default, stored = {}, {}, {}, nil, {}

  -- Reads limits as they are stored: 'WEIGHT IN_FLIGHT SHARE RATE BURST WAITING PAUSED'.
  local function parse(text)
    local weight, most, share, rate, burst, waiting, paused = string.match(text or '', '^(%S+) (%d+) (%S+) (%S+) (%d+) (%d+) (%d)$')
    if not weight then
      return none
    end
    local rule = {weight = tonumber(weight), paused = paused == '1'}
    rule.most, rule.share, rule.waiting = tonumber(most), tonumber(share), tonumber(waiting)
    rate, burst = tonumber(rate), tonumber(burst)
    if rate > 0 then
      rule.gap = 1000000 / rate
      rule.room = ((burst > 0 and burst or math.max(1, math.floor(rate / 10))) - 1) * rule.gap
    end
    return rule
  end

  function load_rules(owners)
    local names, rated = {'default'}, {}
    for _, owner in ipairs(owners) do
      if not rules[owner] then
        rules[owner], names[#names + 1] = none, owner
      end
    end
    if #names == 1 then
      return
    end
    local texts = redis.call('HMGET', prefix .. 'limits', unpack(names))
    default = default or parse(texts[1])
    for i = 2, #names do
      local owner = names[i]
      local inside = string.byte(owner) == 61 and string.find(owner, '\2c', 1, true) -- =
      rules[owner] = texts[i] and parse(texts[i]) or inside and none or default
      if string.byte(owner) == 35 then -- #
        rules[owner] = none
      elseif rules[owner].gap then
        rated[#rated + 1] = owner
      end
    end
    if #rated > 0 then
      for i, full in ipairs(redis.call('ZMSCORE', prefix .. 'buckets', unpack(rated))) do
        local rule = rules[rated[i]] -- a clock that went back leaves a bucket too full
        buckets[rated[i]] = math.min(math.max(full or 0, micros), micros + rule.room + rule.gap)
      end
    end
  end

  function rule_of(owner)
    if not rules[owner] then
      load_rules({owner})
    end
    return rules[owner]
  end

  function limit_of(owner, state, consumes)
    local rule = rule_of(owner)
    if rule == none then
      return
    elseif rule.paused or rule.most > 0 and state.n + state.others >= rule.most then
      return 'blocked', epoch * 20000000 + 10000000
    elseif consumes and rule.share > 0 and state.n >= math.max(1, math.floor(rule.share * n.capacity)) then
      local need = math.ceil((state.n + 1) / rule.share)
      while math.floor(rule.share * need) <= state.n do
        need = need + 1
      end
      return 'blocked', epoch * 20000000 + math.min(need, 9999999)
    elseif rule.gap and buckets[owner] - micros > rule.room then
      return 'asleep', math.ceil((buckets[owner] - rule.room) / 1000) - 0.5
    end
  end

  function take_token(owner)
    local rule = rule_of(owner)
    if rule.gap then
      buckets[owner], stored[owner] = buckets[owner] + rule.gap, true
    end
  end

  function return_token(owner)
    local rule = rule_of(owner)
    if rule.gap then
      buckets[owner] = buckets[owner] - rule.gap
    end
  end

  function save_buckets()
    local list = {}
    for owner in pairs(stored) do
      list[#list + 1] = whole(math.ceil(buckets[owner]))
      list[#list + 1] = owner
    end
    if #list > 0 then
      redis.call('ZADD', prefix .. 'buckets', unpack(list))
    end
  end
end
