-- fragment next: the choice of the next message
--
-- active has each flow that may have a turn, at the tag of its head: the virtual time at which it
-- is due. A delivery sets the queue's virtual time to its tag, and tags the flow's next head one
-- turn later. That is self-clocked fair queueing, with tags on heads only.
--
-- Needs    record, flows, limits, owners, deliveries
-- Touches  hot, active, asleep, blocked, deadlines
-- Gives    take_next(max, kind, consumes, visibility, random, give) -> whether some were lost: takes up to so
--          many messages in the order of their turns, up to a mebibyte, and calls give(receipt,
--          tail, body) for each

-- Picks the entries whose turn it is, in order, and takes them from their flows. turns are flows
-- as active has them; line are those that had a turn in this call, by their next one.
local function pick(most, kind, consumes, nexts)
  local turns = redis.call('ZRANGE', active, '0', whole(most), 'WITHSCORES') -- one more, to know what comes behind
  local names, picked, line, first, at, all = {}, {}, {}, 1, 1, #turns < 2 * most + 2
  for i = 1, #turns, 2 do
    if not string.find(turns[i], '^[=#]') then -- a placeholder: they come last
      turns[i], turns[i + 1], all = nil, nil, true
    else
      names[#names + 1] = turns[i]
    end
  end
  if #names > 0 then
    load_flows(names)
    if (streams or '') == '' then
      load_states(names)
      if epoch then
        load_rules(names)
      end
    end
  end
  local virtual = n.virtual
  while #picked < most do
    local flow, turn_of = turns[at], line[first]
    local tag = tonumber(turns[at + 1]) or math.huge
    if turn_of and (not flow or turn_of.tag < tag or turn_of.tag == tag and turn_of.flow < flow) then
      first = first + 1
    elseif flow then
      turn_of, at = {flow = flow, tag = tag}, at + 2
    else
      break -- nothing waits; or flows come next of which this knows nothing
    end
    flow = turn_of.flow
    local entry = head(flow)
    local owner = entry and tenant_of(flow, string.sub(entry, 23))
    local where, score
    if entry and (consumes or limiting) then
      where, score = hindrance(owner, consumes, owner ~= flow)
    end
    if where then
      nexts[flow] = nil
      hold(flow, owner, where, score)
    elseif not entry then
      nexts[flow] = false
    else
      begin_delivery(owner, kind)
      if rating then
        take_token(owner)
      end
      virtual = math.max(virtual, turn_of.tag)
      picked[#picked + 1] = {flow = flow, owner = owner, tag = virtual, entry = pop(flow)}
      nexts[flow] = false
      if head(flow) then -- its next turn is after those of other flows
        turn_of.tag = virtual + turn(flow)
        nexts[flow] = turn_of.tag
        local place = #line + 1
        local ahead = line[place - 1]
        while place > first and (ahead.tag > turn_of.tag or ahead.tag == turn_of.tag and ahead.flow > flow) do
          line[place], place = ahead, place - 1
          ahead = line[place - 1]
        end
        line[place] = turn_of
      end
    end
  end
  return picked, line[first] or turns[at] or not all
end

local function take_next(max, kind, consumes, visibility, random, give)
  local place = visibility < 10000 and 'f' or '.'
  local head_of = whole(micros) .. whole(now + visibility) .. kind .. place
  local late_head = whole(micros) .. whole(now + visibility) .. string.upper(kind) .. place
  local given, lost, missing, room, largest, again = 0, 0, 0, 1048576, 131072, true
  while again and given < max and room > 0 and lost < 100 do
    local nexts, done = {}, 0
    local picked, more = pick(max - given, kind, consumes, nexts)
    again = more and #picked < max - given
    while done < #picked and room > 0 do
      local ids = {}
      for i = done + 1, math.min(#picked, done + math.max(1, math.floor(room / largest))) do
        ids[#ids + 1] = string.sub(picked[i].entry, 2, 17)
      end
      for i, body in ipairs(redis.call('HMGET', hot, unpack(ids))) do
        local one = picked[done + 1]
        local deadline = body and string.byte(body) ~= 58 and tonumber(string.match(body, '^(%d+):')) -- :
        if deadline and deadline <= now then
          redis.call('ZADD', prefix .. 'deadlines', deadline, ids[i]) -- it is not there while the message is delayed
          due_at(now)
          lost, room = 100, 0 -- run_due removes the message
        end
        if room <= 0 then
          break
        end
        done = done + 1
        n.virtual = math.max(n.virtual, one.tag)
        if body then
          local receipt = ids[i] .. random
          deliver(receipt, deadline and late_head or head_of, one.entry, one.flow)
          if one.owner ~= n.tenant then
            n.others, n.tenant = n.since, one.owner
          end
          n.since = now
          given, room = given + 1, room - #body
          largest = given == 1 and math.max(64, #body) or math.max(largest, #body)
          give(receipt, string.sub(one.entry, 23), body)
        else
          lost, missing, again, n.removed = lost + 1, missing + 1, true, n.removed + 1
          end_delivery(one.owner, kind)
        end
      end
    end
    local back = {}
    for i = #picked, done + 1, -1 do -- they keep their turns
      local one = picked[i]
      add(one.flow, one.entry)
      back[one.flow], nexts[one.flow] = one.tag, nil
      if rating then
        return_token(one.owner)
        redis.call('ZREM', prefix .. 'asleep', one.owner) -- perhaps it fell asleep behind these
      end
      end_delivery(one.owner, kind)
    end
    for flow, tag in pairs(back) do
      if n.blocked == 0 or not redis.call('ZSCORE', blocked, flow) then
        redis.call('ZADD', active, whole(tag), flow)
      end
    end
    local tags, idle_flows = {}, {}
    for flow, tag in pairs(nexts) do
      if tag then
        tags[#tags + 1] = whole(tag)
        tags[#tags + 1] = flow
      else
        idle_flows[#idle_flows + 1] = flow
      end
    end
    if #tags > 0 then
      redis.call('ZADD', active, 'XX', unpack(tags)) -- a flow that is held is not active
    end
    if #idle_flows > 0 then
      redis.call('ZREM', active, unpack(idle_flows))
    end
  end
  store_deliveries(visibility)
  if missing > 0 then
    redis.call('HINCRBY', K, 'lost', missing)
  end
  return lost > 0
end
