-- fragment deliveries: messages that were delivered
--
-- The field of a message has its deadline in milliseconds or nothing, '*' and its cost unless that is 1, '@' and its batch if it
-- has one, see batches, ':', its priority,
-- its flow, '=TENANT' if that is a stream, \1, its dedupe id, \1, and its body. If it was delivered before or delayed, it has
-- a second field, 'a' and its id: how many deliveries it had, ';', since when it waits, in milliseconds, ';', why it was given
-- back last, and \1.
--
-- The field of a delivery has the instant of the delivery in microseconds, 16 digits; the end of its visibility in
-- milliseconds, 13 digits; its kind, c of a handler of Consume, o counted for limits, r neither, a capital if the
-- message has a deadline, a batch or a second field; its place; if it was extended the instant of the last time in milliseconds,
-- 13 digits; '@' and its batch, if it has one; its flow, and '=TENANT' if that is a stream. A receipt is the id and 8 random letters. The place is '.' in
-- the list young, where deliveries of the last seconds lie in their order, and 'f' in the sorted set flight, where the
-- others lie with the end of their visibility as score. So a message that is handled quickly never touches the sorted
-- set, and young may have receipts that are settled. The field of a cancelled message is gone; its delivery stays until
-- it is over.
--
-- Needs    record, owners
-- Touches  hot, young, flight
-- Gives    deliver(receipt, kind, flow, owner, visibility, batch): notes a delivery; batch is '' for none
--          store_deliveries(visibility): stores all of them; once
--          finish(receipt, value, took) -> id: a delivery is over; took is how many milliseconds its handler took, '' for
--          as long as it was in flight, nil if it does not count
local flight, young, fresh = prefix .. 'flight', prefix .. 'young', {}

local function deliver(receipt, kind, flow, owner, visibility, batch)
  fresh[#fresh + 1] = receipt
  sets[receipt] = whole(micros) .. whole(now + visibility) .. kind .. (visibility < 10000 and 'f' or '.') .. (#batch == 16 and '@' .. batch or '') .. flow .. (owner ~= flow and owner or '')
end

local function store_deliveries(visibility)
  if #fresh == 0 then
    return
  elseif visibility < 10000 then
    local pairs_of = {}
    for _, receipt in ipairs(fresh) do
      pairs_of[#pairs_of + 1], pairs_of[#pairs_of + 2] = whole(now + visibility), receipt
    end
    redis.call('ZADD', flight, unpack(pairs_of))
    due_at(now + visibility)
  else
    due_at(redis.call('RPUSH', young, unpack(fresh)) > 1000 + 2 * n.flying and now + 100 or now + 10000)
  end
  n.flying, n.delivered = n.flying + #fresh, n.delivered + #fresh
end

local function finish(receipt, value, took)
  gone[receipt], sets[receipt] = true, nil
  if string.byte(value, 31) == 102 then -- f
    redis.call('ZREM', flight, receipt)
  end
  n.flying = math.max(0, n.flying - 1)
  took = took == '' and math.max(0, math.floor((micros - string.sub(value, 1, 16)) / 1000)) or tonumber(took)
  end_delivery(string.match(value, '=.*$', 32), string.sub(value, 30, 30), took, string.match(value, '^%d*@?%d*(#%d+)', 32))
  return string.sub(receipt, 1, 16)
end
