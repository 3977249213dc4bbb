-- fairqueue.stats(K) first most owner ... -> {...} or nil
--
-- Describes the queue and changes nothing.
--
-- Needs    record, flows
-- Touches  blocked, asleep, limits, young, flight, delayed, dead, readers, schedules, ticks
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  first: which flow to describe first, from 0: those that wait for their handlers, those
--          that sleep, those whose turn is next
-- ARGV[2]  most: how many, at most 40
-- ARGV     owners to describe besides, at most 40
-- Reply    nil without a queue, else {the server's clock; {flow, waiting, the id of its head or
--          '', since when that waits or '', 1 if the flow is blocked, how many of its tenant are in flight and their mean time, or '',
--          until when it sleeps or '', the limits that apply or '' ...}; waiting, in flight, delayed, dead, flows; {field, value, ...} of the record and written, delivered, acked;
--          {readers and what they say ...}; schedules; those that are overdue; how many in flight are
--          abandoned, since when the first of them is, or ''; with first 0 flows and
--          their tenants of the last 100 deliveries}, times in milliseconds. Of the schedules that are due, up to 100 are
--          looked at, or a mebibyte of definitions
-- Cost     O(log N) a flow
-- Repeat   harmless: it only reads
local first, left = tonumber(ARGV[1]), tonumber(ARGV[2])
if not exists then
  return false
end
local blocked, flows = prefix .. 'blocked', {}
local general = redis.call('HGET', prefix .. 'limits', 'default')
local function describe_one(flow, held)
  local entry, shared, state = head(flow), string.byte(flow) ~= 35 and general, redis.call('HGET', hot, 'o' .. flow) -- #
  if state then
    local flying, mean, others = struct.unpack('<ddd', state)
    state = whole(flying + others) .. ' ' .. whole(mean)
  end
  for _, word in ipairs({
    flow, waiting(flow), entry and string.sub(entry, 2, 17) or '', entry and string.match(redis.call('HGET', hot, 'a' .. string.sub(entry, 2, 17)) or '', '^%d+;(%d+)') or '', held, state or '',
    redis.call('ZSCORE', prefix .. 'asleep', flow) or '', redis.call('HGET', prefix .. 'limits', flow) or shared or '',
  }) do
    flows[#flows + 1] = word
  end
end

-- Describes members by rank. The placeholders are the last ones, or the only one has the rank gap.
local function describe(set, held, gap)
  local size = redis.call('ZCARD', set) - (set == active and 2 or 1)
  for rank = first, math.min(first + left, size) - 1 do
    rank = gap and rank >= gap and rank + 1 or rank
    local flow = redis.call('ZRANGE', set, rank, rank)[1]
    describe_one(flow, held)
  end
  left = left - math.max(0, math.min(left, size - first))
  first = math.max(0, first - size)
end
describe(blocked, 1)
describe(prefix .. 'asleep', 0, redis.call('ZCOUNT', prefix .. 'asleep', '-inf', '(inf'))
describe(active, 0)
for i = 3, #ARGV do
  describe_one(ARGV[i], 0)
end
-- A tick that was refused is tried again some seconds later, and keeps its instant.
local schedules, ticks, overdue, room = prefix .. 'schedules', prefix .. 'ticks', 0, 1048576
for _, name in ipairs(redis.call('ZRANGEBYSCORE', ticks, '-inf', now + 10000, 'LIMIT', '0', '100')) do
  local next = string.match(redis.call('HGET', schedules, 's' .. name) or '', '^%S+ (%d+) ')
  if next and now - next > 60000 and room > 0 then
    local definition = redis.call('HGET', schedules, 'd' .. name) or ''
    room = room - #definition
    if now - next - (string.match(definition, '"jitter_ms":(%d+)') or 0) > 60000 then
      overdue = overdue + 1
    end
  end
end
local abandoned = redis.call('ZCOUNT', prefix .. 'flight', '-inf', now)
local delayed, dead = redis.call('ZCARD', prefix .. 'delayed') - 1, redis.call('ZCARD', prefix .. 'dead') - 1
local record, recent = redis.call('HGETALL', K), {}
for _, pair in ipairs({{'written', n.written}, {'delivered', n.delivered}, {'acked', n.acked}}) do
  record[#record + 1], record[#record + 2] = pair[1], whole(pair[2])
end
local last = ARGV[1] == '0' and redis.call('LRANGE', prefix .. 'young', '-100', '-1') or {''}
for _, value in ipairs(redis.call('HMGET', hot, unpack(last))) do
  recent[#recent + 1] = value and string.match(value, '[=#].*$', 32) or nil
end
return {
  now, flows, n.written - n.removed - n.flying + n.cancelled - delayed - dead, n.flying, delayed, dead,
  redis.call('ZCARD', active) + redis.call('ZCARD', blocked) + redis.call('ZCARD', prefix .. 'asleep') - 4,
  record, redis.call('HGETALL', prefix .. 'readers'), redis.call('ZCARD', ticks) - 1, overdue, abandoned,
  abandoned > 0 and redis.call('ZRANGE', prefix .. 'flight', '0', '0', 'WITHSCORES')[2] or '', recent,
}
