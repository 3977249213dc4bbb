-- fairqueue.stats(K) most -> {...} or nil
--
-- Looks and changes nothing.
--
-- Needs    record
-- Touches  blocked, work, flight, delayed, dead, readers
-- KEYS[1]  K
-- ARGV[1]  most: how many flows to describe, at most 1,024: those whose turn is next, and
--          those that wait for their handlers
-- Reply    nil without a queue, else {the server's clock; waiting, in flight, delayed, dead,
--          flows; {field, value, ...} of the record; {readers and what they say ...}; {flow,
--          waiting, the id of its head or '', since when that waits or '', 1 if the flow is
--          blocked, its state in work or '' ...}}, times in milliseconds
-- Cost     O(log N) a flow
-- Repeat   harmless: it only reads
if not exists then
  return false
end
local blocked, work, flows = prefix .. 'blocked', prefix .. 'work', {}
local function describe(set, held)
  for _, flow in ipairs(redis.call('ZRANGE', set, 0, ARGV[1] - 1)) do
    if flow ~= '' and #flows < 6 * ARGV[1] then
      local from, to = range(flow)
      local head = redis.call('ZRANGEBYLEX', backlog, from, to, 'LIMIT', 0, 1)[1]
      flows[#flows + 1] = flow
      flows[#flows + 1] = redis.call('ZLEXCOUNT', backlog, from, to)
      flows[#flows + 1] = head and string.sub(head, #flow + 3, #flow + 18) or ''
      flows[#flows + 1] = head and string.match(head, '^;%d+;(%d+)', #flow + 19) or ''
      flows[#flows + 1] = held
      flows[#flows + 1] = redis.call('HGET', work, flow) or ''
    end
  end
end
describe(blocked, 1)
describe(active, 0)
return {
  now, redis.call('ZCARD', backlog) - 1, redis.call('ZCARD', prefix .. 'flight') - 1, redis.call('ZCARD', prefix .. 'delayed') - 1,
  redis.call('ZCARD', prefix .. 'dead') - 1, redis.call('ZCARD', active) + redis.call('ZCARD', blocked) - 2, redis.call('HGETALL', K),
  redis.call('HGETALL', prefix .. 'readers'), flows,
}
