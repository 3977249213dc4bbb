-- fragment limits: limits of tenants
--
-- Scripts write a tenant as its flow, also where the flows that take turns are streams. A tenant
-- that may not start lies in blocked until something else happens, or in asleep until an instant.
--
-- A score of blocked below 20,000,000 is that of the slow-tenant rule. Above, it is
-- 20,000,000 * EPOCH plus the number of handlers with which MaxShare allows another delivery,
-- or plus 10,000,000 if only a change of the tenant helps. A change of the default limits
-- starts another epoch, so those that it may concern are a range of scores.
--
-- A score of asleep is in milliseconds. One by a rate has half a millisecond less, so that it
-- can be told from a pause, which is whole.
--
-- K has the field limits once there was a limit, a pause or a throttle. It is 'EPOCH KINDS', where
-- the kinds are letters: w if limits are stored, p if some are pauses, f if some count deliveries,
-- r if some are rates, m if some count messages that wait.
-- Scripts have the fragment plain or always in front of this one.
--
-- Needs    record
-- Touches  K, limits, asleep, buckets, active, blocked, backlog, work
-- Gives    epoch: a number if K has the field, else nil; kinds: the letters
--          counting, rating: whether deliveries are counted for limits, and for rates
--          limiting: whether a limit may hold a delivery back
--          quantum: the turn of a flow of weight 1
--          freed: how many flows got their turn again
--          earlier: 1 if a tenant fell asleep that wakes before all others, else 0
--          The following exists only with always, or in a queue with the field that needs it:
--          turn(flow): how much later its next turn is
--          put(flows, wait) -> how many have a turn: gives flows with messages their turns, after
--          so much virtual time, or after a turn of each, unless they are held
--          bring(flow) -> whether it has a turn: gives it one if it has messages
--          enable(new, step): notes that there are limits of these kinds, in an epoch by so much later
--          nap(tenant, score): has it sleep, at least until then
--          rouse(most) -> whether there may be more: brings at most so many whose sleep is over
--          The following exists only in a queue with the field:
--          load_rules(tenants): reads limits and buckets of tenants
--          rule_of(tenant): its limits
--          limit_of(tenant, state, consumes) -> the key where it has to wait, and the score
--          there; nil if a delivery may start. Without counting there is no state
--          take_token(tenant), return_token(tenant): counts a delivery for the rate; if rating
--          save_buckets(): stores the buckets; once, at the end; if rating
local epoch, kinds = string.match(limits or '', '^(%d+) (%a*)$')
local counting, rating = string.find(kinds or '', 'f', 1, true), string.find(kinds or '', 'r', 1, true)
local limiting, earlier, freed = string.find(kinds or '', '[pfr]'), 0, 0
local quantum = 1000
local turn, put, bring, enable, nap, rouse
local load_rules, rule_of, limit_of, take_token, return_token, save_buckets
epoch = tonumber(epoch)
local sleeps = epoch -- whether there may be tenants that sleep
if hot and limiting then -- a key of another type ends the script here; broken does it for others
  redis.call('HLEN', prefix .. 'limits')
  redis.call('HLEN', prefix .. 'work')
  for _, name in ipairs({'active', 'asleep', 'blocked', rating and 'buckets' or nil}) do
    redis.call('ZCARD', prefix .. name)
  end
end

if not plain then
  function turn(flow)
    local weight = rule_of and rule_of(flow).weight
    return weight and math.max(1, math.ceil(quantum / weight)) or quantum
  end

  function put(flows, wait)
    local held, tags = {}, {}
    local sets = {sleeps and 'asleep' or nil}
    if n.blocked ~= '0' then
      sets[#sets + 1] = 'blocked'
    end
    for _, name in ipairs(sets) do
      for i, score in ipairs(redis.call('ZMSCORE', prefix .. name, unpack(flows))) do
        held[i] = held[i] or score
      end
    end
    for i, flow in ipairs(flows) do
      if not held[i] then
        tags[#tags + 1] = whole(n.virtual + (wait or turn(flow)))
        tags[#tags + 1] = flow
      end
    end
    if #tags > 0 then
      redis.call('ZADD', active, 'NX', unpack(tags))
    end
    return #tags / 2
  end

  function bring(flow)
    return redis.call('ZRANGEBYLEX', backlog, '[' .. flow .. '\1', '(' .. flow .. '\2', 'LIMIT', '0', '1')[1] and put({flow}, 0) > 0
  end

  function rouse(most)
    local due = redis.call('ZRANGEBYSCORE', prefix .. 'asleep', '-inf', instant, 'LIMIT', '0', most)
    if #due > 0 then
      redis.call('ZREM', prefix .. 'asleep', unpack(due))
      for _, tenant in ipairs(due) do
        if bring(tenant) then
          freed = freed + 1
        end
      end
    end
    return #due == most
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
  function nap(tenant, score)
    if enable then
      enable('', 0)
    end
    local asleep = prefix .. 'asleep'
    local until_now = tonumber(redis.call('ZSCORE', asleep, tenant) or nil) or 0
    if score == math.floor(score) and until_now < math.huge and until_now ~= math.floor(until_now) then
      until_now = 0 -- it slept by its rate, which the next read finds again
    end
    if score > until_now then
      local first = tonumber(redis.call('ZRANGE', asleep, '0', '0', 'WITHSCORES')[2]) or math.huge
      earlier = score < first and 1 or earlier
      redis.call('ZADD', asleep, score == math.huge and '+inf' or string.format('%.1f', score), tenant)
    end
    n.blocked = math.max(0, n.blocked - redis.call('ZREM', prefix .. 'blocked', tenant))
    redis.call('ZREM', active, tenant)
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

  function load_rules(tenants)
    local names, rated = {'default'}, {}
    for _, tenant in ipairs(tenants) do
      if not rules[tenant] then
        rules[tenant], names[#names + 1] = none, tenant
      end
    end
    if #names == 1 or not are_stored then
      return
    end
    local texts = redis.call('HMGET', prefix .. 'limits', unpack(names))
    default = default or parse(texts[1])
    for i = 2, #names do
      local tenant = names[i]
      rules[tenant] = texts[i] and parse(texts[i]) or default
      if rules[tenant].gap then
        rated[#rated + 1] = tenant
      end
    end
    if #rated > 0 then
      for i, full in ipairs(redis.call('ZMSCORE', prefix .. 'buckets', unpack(rated))) do
        local tenant, most = rated[i], micros + rules[rated[i]].room + rules[rated[i]].gap
        full = math.max(full or 0, micros)
        buckets[tenant] = math.min(full, most)
        stored[tenant] = full > most or nil -- the clock went back, or the rate was lower: it empties from now on
      end
    end
  end

  function rule_of(tenant)
    if not rules[tenant] then
      load_rules({tenant})
    end
    return rules[tenant]
  end

  function limit_of(tenant, state, consumes)
    local rule = rule_of(tenant)
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
    elseif rule.gap and buckets[tenant] - micros > rule.room then
      return 'asleep', math.ceil((buckets[tenant] - rule.room) / 1000) - 0.5
    end
  end

  if rating then
    function take_token(tenant)
      local rule = rule_of(tenant)
      if rule.gap then
        buckets[tenant], stored[tenant] = buckets[tenant] + rule.gap, true
      end
    end

    function return_token(tenant)
      local rule = rule_of(tenant)
      if rule.gap then
        buckets[tenant] = buckets[tenant] - rule.gap
      end
    end

    function save_buckets()
      local list = {}
      for tenant in pairs(stored) do
        list[#list + 1] = whole(math.ceil(buckets[tenant]))
        list[#list + 1] = tenant
      end
      if #list > 0 then
        redis.call('ZADD', prefix .. 'buckets', unpack(list))
      end
    end
  end
end
