-- fairqueue.stats(K) first most -> {...} or nil
--
-- Describes the queue and changes nothing.
--
-- Needs    record
-- Touches  blocked, work, flight, delayed, dead, readers, schedules, ticks
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  first: which flow to describe first, from 0: those that wait for their handlers
--          come before those whose turn is next
-- ARGV[2]  most: how many, at most 40
-- Reply    nil without a queue, else {the server's clock; {flow, waiting, the id of its head or
--          '', since when that waits or '', 1 if the flow is blocked, its state in work or ''
--          ...}; waiting, in flight, delayed, dead, flows; {field, value, ...} of the record;
--          {readers and what they say ...}; schedules; those that are overdue}, times in
--          milliseconds. Of the schedules that are due, up to 100 are looked at, or a
--          mebibyte of definitions
-- Cost     O(log N) a flow
-- Repeat   harmless: it only reads
local first, left = tonumber(ARGV[1]), tonumber(ARGV[2])
if not exists then
  return false
end
local blocked, work, flows = prefix .. 'blocked', prefix .. 'work', {}
local function describe(set, held)
  local size = redis.call('ZCARD', set) - 1 -- the last one is the placeholder
  if first < size and left > 0 then
    for _, flow in ipairs(redis.call('ZRANGE', set, first, math.min(first + left, size) - 1)) do
      local from, to = '[' .. flow .. '\1', '(' .. flow .. '\2'
      local head = redis.call('ZRANGEBYLEX', backlog, from, to, 'LIMIT', '0', '1')[1]
      flows[#flows + 1] = flow
      flows[#flows + 1] = redis.call('ZLEXCOUNT', backlog, from, to)
      flows[#flows + 1] = head and string.sub(head, #flow + 3, #flow + 18) or ''
      flows[#flows + 1] = head and string.match(head, '^;%d+;(%d+)', #flow + 19) or ''
      flows[#flows + 1] = held
      flows[#flows + 1] = redis.call('HGET', work, flow) or ''
    end
    left = left - math.min(left, size - first)
  end
  first = math.max(0, first - size)
end
describe(blocked, 1)
describe(active, 0)
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
return {
  now, flows, redis.call('ZCARD', backlog) - 1, redis.call('ZCARD', prefix .. 'flight') - 1,
  redis.call('ZCARD', prefix .. 'delayed') - 1, redis.call('ZCARD', prefix .. 'dead') - 1,
  redis.call('ZCARD', active) + redis.call('ZCARD', blocked) - 2, redis.call('HGETALL', K), redis.call('HGETALL', prefix .. 'readers'),
  redis.call('ZCARD', ticks) - 1, overdue,
}
