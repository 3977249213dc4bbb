-- fragment next: the choice of the next message
--
-- active has each flow that may have a turn, at the tag of its head: the virtual time at which it is due. A delivery sets
-- the queue's virtual time to its tag, and tags the flow's next head one turn later. That is self-clocked fair queueing,
-- with tags on heads only.
--
-- Needs    record, flows, limits, owners, dedupes, deliveries, returns
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
  local given, lost, expired, room, more = 0, 0, 0, 1048576, true
  for _ = 1, max + 100 do
    local flow, tag = unpack(redis.call('ZRANGE', active, '0', '0', 'WITHSCORES'))
    if given == max or room <= 0 or not string.find(flow, '^[=#]') then
      more = false
      break
    end
    local entry = head(flow)
    local id, owner = string.sub(entry or '', 2, 17), string.byte(flow) == 61 and flow -- =
    local where, score, body, made, deadline, _
    if owner and (consumes or limiting) then
      where, score = place_to_wait(owner, consumes)
    end
    if entry and not where then
      body, made = unpack(redis.call('HMGET', hot, id, 'a' .. id))
      deadline, _, _, owner = header(body)
      room = room - #(body or '')
      if body and owner ~= flow and (consumes or limiting) then
        where, score = place_to_wait(owner, consumes, true)
      end
    end
    if where and (not deadline or deadline > now) then
      hold(flow, owner, where, score)
    else
      if entry then
        pop(flow)
      end
      if not body then
        lost = lost + (entry and 1 or 0)
      elseif deadline and deadline <= now then
        redis.call('ZREM', deadlines, id)
        remove(id, body)
        expired = expired + 1
      else
        begin_delivery(owner, kind)
        if rating then
          take_token(owner)
        end
        if owner ~= n.tenant then
          n.others, n.tenant = n.since, owner
        end
        n.virtual, n.since, given = math.max(n.virtual, tonumber(tag)), now, given + 1
        deliver(id .. random, (deadline or made) and string.upper(kind) or kind, flow, owner, visibility)
        give(id .. random, made or '', body)
        tag = tag_of(n.virtual + turn(flow))
      end
      if head(flow) then
        redis.call('ZADD', active, tag, flow)
      else
        redis.call('ZREM', active, flow)
      end
    end
  end
  store_deliveries(visibility)
  count('lost', lost)
  count('expired', expired)
  n.removed = n.removed + lost
  return more or lost + expired > 0
end
