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
-- K has the field limits once there was a limit, an account, a pause or a throttle. It
-- is 'EPOCH KINDS', where the kinds are letters: a if there are accounts, w if limits are stored,
-- p if some are pauses, f if some count deliveries, r if some are rates, m if some count messages
-- that wait.
-- Scripts have the fragment plain or always in front of this one.
--
-- Needs    record
-- Touches  K, limits, asleep, buckets, ring, active, blocked, backlog, work
-- Gives    epoch: a number if K has the field, else nil; kinds: the letters
--          counting, rating: whether deliveries are counted for limits, and for rates
--          limiting: whether a limit may hold a delivery back
--          unit_of(flow): its unit
--          leave(owner): takes its turn away
--          freed: how many units got their turn again
--          earlier: 1 if an owner fell asleep that wakes before all others, else 0
--          The following exists only with always, or in a queue with the field that needs it:
--          turn(unit): how much later the next turn of the unit is
--          put(flows, wait) -> how many units have a turn: gives flows with messages their
--          turns, after so much virtual time, or after a turn of each, unless they or their
--          units are held
--          bring(owner) -> whether its unit has a turn: gives it one if it has messages
--          forget_account(unit): forgets which tenant of an account was last, if none has messages
--          enable(new, step): notes that there are limits of these kinds, in an epoch by so much later
--          nap(owner, score): has it sleep, at least until then
--          rouse(most) -> whether there may be more: brings at most so many whose sleep is over
--          The following exists only in a queue with the field:
--          load_rules(owners): reads limits and buckets of owners
--          rule_of(owner): its limits
--          limit_of(owner, state, consumes) -> the key where it has to wait, and the score
--          there; nil if a delivery may start. Without counting there is no state
--          take_token(owner), return_token(owner): counts a delivery for the rate; if rating
--          save_buckets(): stores the buckets; once, at the end; if rating
local epoch, kinds = string.match(limits or '', '^(%d+) (%a*)$')
local counting, rating = string.find(kinds or '', 'f', 1, true), string.find(kinds or '', 'r', 1, true)
local limiting, earlier, freed = string.find(kinds or '', '[pfr]'), 0, 0
local quantum = 1000
local turn, put, bring, forget_account, enable, nap, rouse
local load_rules, rule_of, limit_of, take_token, return_token, save_buckets
epoch = tonumber(epoch)
local sleeps = epoch -- whether there may be owners that sleep
if hot and limiting then -- a key of another type ends the script here; broken does it for others
  redis.call('HLEN', prefix .. 'limits')
  redis.call('HLEN', prefix .. 'work')
  for _, name in ipairs({'active', 'asleep', 'blocked', 'ring', rating and 'buckets' or nil}) do
    redis.call('ZCARD', prefix .. name)
  end
end

local function unit_of(flow)
  local at = string.byte(flow) == 61 and string.find(flow, '\2c', 1, true) -- =
  return at and '@' .. string.sub(flow, 2, at - 1) or flow
end

local function leave(owner)
  local unit = unit_of(owner)
  if unit ~= owner then
    redis.call('ZREM', prefix .. 'ring', unit .. '\1' .. owner)
    return
  end
  redis.call('ZREM', active, owner)
end

if not plain then
  function turn(unit)
    local weight = rule_of and rule_of(unit).weight
    return weight and math.max(1, math.ceil(quantum / weight)) or quantum
  end

  function put(flows, wait)
    local owners, held, units, ring, tags = {}, {}, {}, {}, {}
    for _, flow in ipairs(flows) do
      local unit = unit_of(flow)
      owners[#owners + 1] = flow
      if unit ~= flow then
        owners[#owners + 1] = unit
      end
    end
    local sets = {sleeps and 'asleep' or nil}
    if n.blocked ~= '0' then
      sets[#sets + 1] = 'blocked'
    end
    for _, name in ipairs(sets) do
      for i, score in ipairs(redis.call('ZMSCORE', prefix .. name, unpack(owners))) do
        held[owners[i]] = held[owners[i]] or score
      end
    end
    for _, flow in ipairs(flows) do
      local unit = unit_of(flow)
      if not held[flow] and unit ~= flow then
        ring[#ring + 1] = '0'
        ring[#ring + 1] = unit .. '\1' .. flow
      end
      if not held[flow] and not held[unit] and not units[unit] then
        units[unit] = true
        units[#units + 1] = unit
      end
    end
    if #ring > 0 then
      redis.call('ZADD', prefix .. 'ring', unpack(ring))
    end
    if #units == 0 then
      return 0
    end
    for _, unit in ipairs(units) do
      tags[#tags + 1] = whole(n.virtual + (wait or turn(unit)))
      tags[#tags + 1] = unit
    end
    redis.call('ZADD', active, 'NX', unpack(tags))
    return #units
  end

  function bring(owner)
    local set = string.byte(owner) == 64 and prefix .. 'ring' or backlog -- @
    if redis.call('ZRANGEBYLEX', set, '[' .. owner .. '\1', '(' .. owner .. '\2', 'LIMIT', '0', '1')[1] then
      return put({owner}, 0) > 0
    elseif set ~= backlog and forget_account then
      forget_account(owner)
    end
  end

  function rouse(most)
    local due = redis.call('ZRANGEBYSCORE', prefix .. 'asleep', '-inf', instant, 'LIMIT', '0', most)
    if #due > 0 then
      redis.call('ZREM', prefix .. 'asleep', unpack(due))
      for _, owner in ipairs(due) do
        if bring(owner) then
          freed = freed + 1
        end
      end
    end
    return #due == most
  end
end

if not hot or string.find(kinds or '', 'a', 1, true) then
  function forget_account(unit)
    local flow = '=' .. string.sub(unit, 2) .. '\2'
    if not redis.call('ZRANGEBYLEX', backlog, '[' .. flow .. 'c', '(' .. flow .. 'd', 'LIMIT', '0', '1')[1] then
      redis.call('HDEL', prefix .. 'work', unit .. '\1')
    end
  end
end

if not hot then
  function enable(new, step)
    for kind in string.gmatch(new, '%a') do
      if not string.find(kinds or '', kind, 1, true) then
        kinds = (kinds or '') .. kind
      end
    end
    sleeps, kinds = true, kinds or ''
    local text = whole((epoch or 1) + step) .. ' ' .. kinds
    if text ~= limits then
      limits = text
      redis.call('HSET', K, 'limits', text)
    end
  end
end

if not hot or rating then
  function nap(owner, score)
    if enable then
      enable('', 0)
    end
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
end

if epoch then
  local rules, buckets, none, default, stored = {}, {}, {}, nil, {}

  -- Reads limits as they are stored: 'WEIGHT IN_FLIGHT SHARE RATE BURST WAITING PAUSED'.
  local function parse(text)
    if not string.find(kinds, '[frm]') then -- weights and pauses, which is quick
      local weight = string.match(text or '', '^%S+')
      return weight and {weight = tonumber(weight), paused = string.sub(text, -1) == '1', most = 0, share = 0, waiting = 0} or none
    end
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

  local are_stored = string.find(kinds, 'w', 1, true)

  function load_rules(owners)
    local names, rated = {'default'}, {}
    for _, owner in ipairs(owners) do
      if not rules[owner] then
        rules[owner], names[#names + 1] = none, owner
      end
    end
    if #names == 1 or not are_stored then
      return
    end
    local texts = redis.call('HMGET', prefix .. 'limits', unpack(names))
    default = default or parse(texts[1])
    for i = 2, #names do
      local owner = names[i]
      local inside = string.byte(owner) == 61 and string.find(owner, '\2c', 1, true) -- =
      rules[owner] = texts[i] and parse(texts[i]) or inside and none or default
      if rules[owner].gap then
        rated[#rated + 1] = owner
      end
    end
    if #rated > 0 then
      for i, full in ipairs(redis.call('ZMSCORE', prefix .. 'buckets', unpack(rated))) do
        local owner, most = rated[i], micros + rules[rated[i]].room + rules[rated[i]].gap
        full = math.max(full or 0, micros)
        buckets[owner] = math.min(full, most)
        stored[owner] = full > most or nil -- the clock went back, or the rate was lower: it empties from now on
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

  if rating then
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
end
