-- fragment limits: limits of tenants
--
-- A flow is a tenant or a stream. An owner is the flow of a tenant. The flow of an owner that may not start lies in
-- blocked until something else happens, or in asleep until an instant.
--
-- A score of blocked below 20,000,000 is that of the slow-tenant rule. Above, it is 20,000,000 * EPOCH plus the number
-- of handlers with which MaxShare allows another delivery, or plus 10,000,000 if only a change of the owner helps. A
-- change of the default limits starts another epoch, so those that it may concern are a range of scores.
--
-- A score of asleep is in milliseconds. One by a rate has half a millisecond less, so that it can be told from a pause,
-- which is whole.
--
-- K has the field limits once there was a limit, a pause or a throttle. It is 'EPOCH KINDS', where the kinds are
-- letters: w if limits are stored, d if a default is, p if some are pauses, f if some count deliveries, r if some are
-- rates, m if some count messages that wait; g if the default has a weight, a pause, or counts messages that wait.
--
-- The field d of hot has the default limits as short scripts need them, numbers of eight bytes: how many may be in
-- flight, which share of the handlers, 0 for any; and of the rate the microseconds from one delivery to the next, 0 for
-- any, and how many more a burst may be ahead.
--
-- Needs    record, flows
-- Gives    epoch: a number if K has the field, else nil; kinds: the letters
--          counting, rating: whether deliveries are counted for limits, and for rates
--          limiting: whether a limit may hold a delivery back
--          freed: how many flows got their turn again
--          earlier: 1 if an owner fell asleep that wakes before all others, or a message waits for an earlier instant than
--          all others, else 0
--          turn(flow, cost): how much later its next turn is, for a message of that cost, 1 by default
--          tag_of(virtual): a virtual time as a score
--          put(flows, wait): gives flows with messages their turns, after so much virtual time, or
--          after a turn of each, unless they are held
--          activate(flow) -> whether it has a turn: gives it one if it has messages
--          enable(new, step): notes that there are limits of these kinds, in an epoch by so much later
--          suspend(owner, score): has it sleep, at least until then
--          resume_due(most) -> whether there may be more: activates at most so many whose sleep is over
--          The following needs the field:
--          load_rules(owners): reads limits and buckets of owners
--          rule_of(owner): its limits
--          limit_of(owner, state, consumes, cost) -> the key where it has to wait, and the score
--          there; nil if a delivery of that cost, 1 by default, may start
--          take_token(owner, cost) -> until when it has to sleep if it cost more than a burst: counts a delivery for the rate
--          save_buckets(): stores the buckets; once, at the end
local epoch, kinds = string.match(limits or '', '^(%d+) (%a*)$')
local counting, rating = string.find(kinds or '', 'f', 1, true), string.find(kinds or '', 'r', 1, true)
local limiting, earlier, freed = string.find(kinds or '', '[pfr]'), 0, 0
local rules, buckets, none, default, stored = {}, {}, {}, nil, {}
local rule_of
epoch = tonumber(epoch)
if epoch then -- a key of another type ends the script here
  redis.call('HLEN', prefix .. 'limits')
  redis.call('ZCARD', prefix .. 'buckets')
end

local function turn(flow, cost)
  -- Numbers above 2^53 are rounded, so a turn is never too small a part of the virtual time to count.
  return math.max(math.min((cost or 1) * 1000 / (epoch and rule_of(flow).weight or 1), 1e9), n.virtual / 2 ^ 50)
end

local function tag_of(virtual)
  return string.format(virtual % 1 == 0 and '%d' or '%.3f', virtual)
end

function refund(flow, id)
  local tag = redis.call('ZSCORE', active, flow)
  local cost = string.match(redis.call('HGET', hot, id) or '', '^%d*%*(%d+)')
  if tag then
    redis.call('ZADD', active, tag_of(tag - turn(flow, cost) + turn(flow)), flow)
  end
end

local function put(flows, wait)
  local held, tags = {}, {}
  for name, some in pairs({asleep = limits, blocked = n.blocked > 0}) do
    for i, score in ipairs(some and redis.call('ZMSCORE', prefix .. name, unpack(flows)) or {}) do
      held[i] = held[i] or score
    end
  end
  for i, flow in ipairs(flows) do
    if not held[i] then
      tags[#tags + 1] = tag_of(n.virtual + (wait or turn(flow)))
      tags[#tags + 1] = flow
    end
  end
  if #tags > 0 then
    redis.call('ZADD', active, 'NX', unpack(tags))
  end
  return #tags > 0
end

local function activate(flow)
  return head(flow) and put({flow}, 0)
end

-- Another head of a stream may be another tenant's, which may start at once. A full server refuses the turn before
-- anything is changed. A tenant that sleeps by its rate sleeps on: a bucket says less about a message that cost much.
function reconsider(flow)
  if string.byte(flow) == 35 and n.blocked > 0 and redis.call('ZSCORE', prefix .. 'blocked', flow) then -- #
    redis.call('ZADD', active, 'NX', tag_of(n.virtual), flow)
    redis.call('ZREM', prefix .. 'blocked', flow)
    n.blocked, freed = n.blocked - 1, freed + 1
  end
end

local function resume_due(most)
  local due = redis.call('ZRANGEBYSCORE', prefix .. 'asleep', '-inf', instant, 'LIMIT', '0', most)
  if #due > 0 then
    redis.call('ZREM', prefix .. 'asleep', unpack(due))
  end
  for _, owner in ipairs(due) do
    freed = freed + (activate(owner) and 1 or 0)
  end
  return #due == most
end

local function enable(new, step)
  kinds = kinds or ''
  for kind in string.gmatch(new, '%a') do
    if not string.find(kinds, kind, 1, true) then
      kinds = kinds .. kind
    end
  end
  local text = whole((epoch or 1) + step) .. ' ' .. kinds
  if text ~= limits then
    limits = text
    redis.call('HSET', K, 'limits', text)
  end
end

local function suspend(owner, score)
  enable('', 0)
  local asleep = prefix .. 'asleep'
  local until_now = redis.call('ZSCORE', asleep, owner)
  until_now = until_now == 'inf' and math.huge or tonumber(until_now or nil) or 0 -- not every Lua reads that number
  if score == math.floor(score) and until_now < math.huge and until_now ~= math.floor(until_now) then
    until_now = 0 -- it slept by its rate, which the next read finds again
  end
  if score > until_now then
    local first = tonumber(redis.call('ZRANGE', asleep, '0', '0', 'WITHSCORES')[2]) or math.huge
    earlier = score < first and 1 or earlier
    redis.call('ZADD', asleep, score == math.huge and '+inf' or string.format('%.1f', score), owner)
    due_at(math.ceil(score))
  end
  n.blocked = math.max(0, n.blocked - redis.call('ZREM', prefix .. 'blocked', owner))
  redis.call('ZREM', active, owner)
end

-- Reads limits as they are stored, 'WEIGHT IN_FLIGHT SHARE RATE BURST WAITING PAUSED'; a '-' is as in general.
local function parse(text, general)
  if not string.find(kinds, '[frm]') then -- weights and pauses, which is quick
    local weight, paused = string.match(text or '', '^(%S+).* (%S)$')
    return weight and {weight = tonumber(weight) or general.weight, paused = paused == '1' or paused == '-' and general.paused,
      most = 0, share = 0, rate = 0, burst = 0, waiting = 0} or none
  end
  local weight, most, share, rate, burst, waiting, paused = string.match(text or '', '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S)$')
  if not weight then
    return none
  end
  local rule = {weight = tonumber(weight) or general.weight, paused = paused == '1' or paused == '-' and general.paused}
  rule.most, rule.share = tonumber(most) or general.most or 0, tonumber(share) or general.share or 0
  rule.rate, rule.burst = tonumber(rate) or general.rate or 0, tonumber(burst) or general.burst or 0
  rule.waiting = tonumber(waiting) or general.waiting or 0
  if rule.rate > 0 then
    rule.gap = 1000000 / rule.rate
    rule.room = math.min(1e14, ((rule.burst > 0 and rule.burst or math.max(2, math.floor(rule.rate / 10))) - 1) * rule.gap)
  end
  return rule
end

local function load_rules(owners)
  local names, rated = {'default'}, {}
  for _, owner in ipairs(owners) do
    if not rules[owner] then
      rules[owner], names[#names + 1] = none, owner
    end
  end
  if #names == 1 or not string.find(kinds, 'w', 1, true) then
    return
  end
  local texts = redis.call('HMGET', prefix .. 'limits', unpack(names))
  default = default or parse(texts[1], none)
  for i = 2, #names do
    local owner = names[i]
    rules[owner] = texts[i] and parse(texts[i], default) or default
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

local function limit_of(owner, state, consumes, cost)
  local rule = rule_of(owner)
  if rule == none then
    return
  elseif rule.paused or rule.most > 0 and state.n + state.others >= rule.most then
    return 'blocked', epoch * 20000000 + 10000000
  elseif consumes and rule.share > 0 and state.n >= math.max(1, math.floor(rule.share * n.capacity)) then
    local need = math.ceil(1000 * (state.n + 1) / rule.share) -- thousandths
    while math.floor(rule.share * (need / 1000)) <= state.n do
      need = need + 1
    end
    return 'blocked', epoch * 20000000 + math.min(need / 1000, 9999999)
  elseif rule.gap then
    local room = math.max(0, rule.room - ((cost or 1) - 1) * rule.gap) -- a larger one starts when the bucket is full
    if buckets[owner] - micros > room then
      return 'asleep', math.ceil((buckets[owner] - room) / 1000) - 0.5
    end
  end
end

local function take_token(owner, cost)
  local rule = rule_of(owner)
  if rule.gap then
    buckets[owner], stored[owner] = buckets[owner] + cost * rule.gap, true
    local free = buckets[owner] - rule.room
    return free - micros > rule.gap + 1 and math.ceil(free / 1000) - 0.5
  end
end

local function save_buckets()
  local list = {}
  for owner in pairs(stored) do
    list[#list + 1] = whole(math.ceil(buckets[owner]))
    list[#list + 1] = owner
  end
  if #list > 0 then
    redis.call('ZADD', prefix .. 'buckets', unpack(list))
  end
end
