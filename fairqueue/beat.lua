-- fairqueue.beat(K) visibility reader handlers busy name host lingers {receipt} ... -> {roll, 1 or 0, ...}
--
-- Extends deliveries, and registers a reader. A reader extends a delivery from a sixth of its time on: most have ended by
-- then. A reader that was not registered again for 15 seconds is lost: its handlers do not count, and the roll is another one, so
-- all others register again before they take messages. It is missed until readers have brought as many handlers as it had, or as
-- many have left since with a word, or none is left, for a day at most; and 32 are. A reader that registered by a clock that was
-- ahead is removed.
--
-- The placeholder of readers has how many handlers readers have brought, ever, and which of them have replaced lost ones: those up
-- to that number. A reader has the first of them as of its last report, so only later ones replace it, and each of them does once.
--
-- Needs    record, begin
-- KEYS[1]  K
-- ARGV[1]  visibility: for how many milliseconds from now
-- ARGV[2]  reader: letters that no other reader has, or ''
-- ARGV[3]  handlers: how many it runs at once, with decimals if it shares them with others; 0 for one that leaves
-- ARGV[4]  busy: how many of them work
-- ARGV[5]  name: of the reader, without control characters
-- ARGV[6]  host: where it runs, the same
-- ARGV[7]  1 for a reader that is to be registered only if it is, or is missed
-- ARGV     receipts, at most 100
-- Reply    the roll, or '' for a reader that is not registered; for each receipt 1, or 0 for one that is stale: its message was cancelled, or another reader has it; nil
--          without a queue
-- Cost     O(log N) a receipt, and every 5 seconds O(readers)
-- Repeat   harmless: it sets the same again
local reply, flight, readers = {}, prefix .. 'flight', prefix .. 'readers'
local values = #ARGV > 7 and redis.call('HMGET', hot, unpack(ARGV, 8)) or {}
for i, value in ipairs(values) do
  local receipt = ARGV[i + 7]
  local good = value and (n.cancelled == 0 or redis.call('HEXISTS', hot, string.sub(receipt, 1, 16)) == 1)
  local left = good and string.sub(value, 17, 29) - now
  reply[i + 1] = good and 1 or 0
  if good and (ARGV[2] == '' or left <= ARGV[1] * 5 / 6 or left > ARGV[1] + 0) then
    redis.call('ZADD', flight, whole(now + ARGV[1]), receipt)
    sets[receipt] = string.sub(value, 1, 16) .. whole(now + ARGV[1]) .. string.sub(value, 30, 30) .. 'f' .. instant .. string.match(value, '^%d*(.*)$', 32)
    due_at(now + ARGV[1])
  end
end
local unknown = false
if ARGV[2] ~= '' then
  local all, own, before, capacity, lost, joined, used, ledger = redis.call('HGETALL', readers), tonumber(ARGV[3]), nil, 0, {}, 0, 0
  for i = 1, #all, 2 do
    local id = all[i]
    local seen, handlers, rest, at, since = string.match(all[i + 1], '^(%d+)\1([%d.]+)\1(%d*\1[^\1]*\1[^\1]*)\1?([%d.]*)\1?(%d*)$')
    seen, handlers = tonumber(seen), tonumber(handlers)
    if id == '' then
      ledger = all[i + 1]
      joined, used = string.match(ledger, '^([%d.]+)\1([%d.]+)$')
      joined, used = tonumber(joined) or 0, tonumber(used) or 0
    elseif id == ARGV[2] then
      before = handlers or 0
    elseif seen and (seen > now or seen < now - 15000 and at == '') then
      redis.call('HDEL', readers, id)
      renew_roll()
    elseif seen and (seen < now - 15000 or since ~= '') then
      lost[#lost + 1] = {id = id, seen = seen, handlers = handlers, rest = rest, at = tonumber(at), since = tonumber(since)}
    else
      capacity = capacity + (handlers or 0)
    end
  end
  unknown = not before and ARGV[7] == '1'
  if unknown or own == 0 then
    redis.call('HDEL', readers, ARGV[2])
    own = 0
  else
    joined = joined + math.max(0, own - (before or 0))
    redis.call('HSET', readers, ARGV[2], table.concat({instant, ARGV[3], ARGV[4], ARGV[5], ARGV[6], joined}, '\1'))
  end
  capacity = capacity + own
  local ended = own == 0 and before or 0 -- handlers that are not wanted any more
  table.sort(lost, function(a, b) return a.seen < b.seen end)
  for i, r in ipairs(lost) do
    local from = math.max(used, r.at)
    local new = math.max(0, math.min(r.handlers, joined - from))
    local spared = r.since and math.min(ended, r.handlers - new) or 0
    local missing = r.handlers - new - spared
    used, ended = new > 0 and from + new or used, ended - spared
    if not r.since then
      renew_roll()
    end
    if missing < 0.01 or #lost - i >= 32 or r.seen < now - 86400000 or capacity == 0 and before then
      redis.call('HDEL', readers, r.id)
    elseif missing < r.handlers or not r.since or r.since > now then
      redis.call('HSET', readers, r.id, table.concat({whole(r.seen), missing, r.rest, r.at, whole(math.min(r.since or now, now))}, '\1'))
    end
  end
  if ledger ~= joined .. '\1' .. used then
    redis.call('HSET', readers, '', joined .. '\1' .. used)
  end
  n.capacity = math.floor(1000 * capacity + 0.5) / 1000
end
save()
reply[1] = unknown and '' or n.roll
return reply
