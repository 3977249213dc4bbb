-- fragment next: the choice of the next message
--
-- active has each flow that may have a turn, at the tag of its head: the virtual time at which it is due. A delivery sets
-- the queue's virtual time to its tag, and tags the flow's next head one turn later. That is self-clocked fair queueing,
-- with tags on heads only.
--
-- A turn is as long as its message costs. A tag is that of a message of cost 1, since few calls that change a head know
-- its cost. When the turn of a head that costs more has come, its flow pays the rest: the tag moves back by that, and the
-- head is noted as paid for. A head that loses its place by then has its rest refunded.
--
-- Needs    record, flows, limits, owners, dedupes, deliveries, batches, returns
-- Touches  hot, active, asleep, blocked, deadlines
-- Gives    take_next(max, kind, consumes, visibility, random, give) -> whether there may be more: takes up to so many
--          messages in the order of their turns, up to a mebibyte, and calls give(receipt, made, body) for each; made is
--          the message's second field, or ''
local function take_next(max, kind, consumes, visibility, random, give)
  local ahead = max > 1 and redis.call('ZRANGE', active, '0', whole(max - 1)) or {}
  while #ahead > 0 and not string.find(ahead[#ahead], '^[=#]') do
    ahead[#ahead] = nil -- a placeholder
  end
  if #ahead > 0 then -- each is read in any case: this takes fewer commands
    load_flows(ahead)
    load_states(ahead)
  end
  if #ahead > 0 and epoch then
    load_rules(ahead)
  end
  local given, lost, expired, cancelled, extra, room, more = 0, 0, 0, 0, 0, 1048576, true
  for _ = 1, max + 100 do
    local flow, tag = unpack(redis.call('ZRANGE', active, '0', '0', 'WITHSCORES'))
    if given == max or room <= 0 or not string.find(flow, '^[=#]') then
      more = false
      n.virtual = string.find(flow, '^[=#]') and n.virtual or 0 -- nothing is active
      break
    end
    local entry = head(flow)
    local id, owner = string.sub(entry or '', 2, 17), string.byte(flow) == 61 and flow -- =
    local where, score, body, made, deadline, over, _
    local cost, batch = 1, ''
    if owner and (consumes or limiting) then
      where, score = place_to_wait(owner, consumes)
    end
    if entry and not where then
      body, made = unpack(redis.call('HMGET', hot, id, 'a' .. id))
      deadline, _, _, owner, _, cost, batch = header(body)
      over = body and (deadline and deadline <= now and 'expired' or is_withdrawn(batch) and 'cancelled')
      room = room - #(body or '')
      if body and (owner ~= flow or cost > 1) and (consumes or limiting) then
        where, score = place_to_wait(owner, consumes, owner ~= flow and flow or nil, cost)
      end
    end
    local paid, rest = string.byte(entry or '', 18) == 36, cost > 1 and turn(flow, cost) - turn(flow) or 0 -- $
    if where and not over then
      hold(flow, owner, where, score)
    elseif rest > 0 and not paid and not over then
      pay(flow)
      room = room + #body
      redis.call('ZADD', active, tag_of(tag + rest), flow)
    else
      local sleeps
      if entry then
        pop(flow)
      end
      if not body then
        lost = lost + (entry and 1 or 0)
      elseif over then
        redis.call('ZREM', deadlines, id)
        remove(id, body, over)
        expired, cancelled = expired + (over == 'expired' and 1 or 0), cancelled + (over == 'cancelled' and 1 or 0)
        tag = paid and tag_of(tag - rest) or tag
      else
        begin_delivery(owner, kind)
        if rating then
          sleeps = take_token(owner, cost)
        end
        if owner ~= n.tenant then
          n.others, n.tenant = n.since, owner
        end
        n.virtual, n.since, given = math.max(n.virtual, tag + 0), now, given + 1
        deliver(id .. random, (deadline or made or #batch == 16) and string.upper(kind) or kind, flow, owner, visibility, batch)
        give(id .. random, made or '', body)
        tag, extra = tag_of(tag + turn(flow)), extra + cost - 1
      end
      if sleeps then
        suspend(owner, sleeps)
      elseif head(flow) then
        redis.call('ZADD', active, tag, flow)
        if string.find('\1' .. state_of(owner or flow).flows, '\1' .. flow .. '\1', 1, true) then
          freed = freed + 2 -- it was held until a moment ago, and writes of the rest woke no reader: see write_plain
        end
      else
        redis.call('ZREM', active, flow)
      end
    end
  end
  store_deliveries(visibility)
  count('lost', lost)
  count('expired', expired)
  count('cancelled', cancelled)
  count('extra', extra)
  n.removed = n.removed + lost
  return more or lost + expired + cancelled > 0
end
