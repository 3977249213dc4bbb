-- fragment rewind: after the server's clock went back
--
-- Instants that were named while the clock was ahead lie too far ahead, by as much as it went back. The first tend
-- afterwards moves them back, so that nothing waits for, or counts until, an instant that only a wrong clock named. Other
-- instants stay. The id of a message, the start of a retry's delay, and the instant of a delivery or of its last extension tell by which clock
-- an instant was named. Nothing tells that of a sleep, so sleeps are moved that end up to an hour after the latest instant that a call saw. The field tended of K has
-- the instant of the last tend: calls that do no due work may have seen a clock that was ahead for a moment.
-- If there is more, the field rewound of K says where each kind goes on, unless a clock was further ahead since.
--
-- Needs    record, dedupes, deliveries, returns
-- Touches  hot, flight, delayed, deadlines, dedupes, asleep, buckets, dead, ticks
-- Gives    rewind() -> whether there may be more: looks at up to 500 instants of each kind, and moves deadlines of about
--          a mebibyte of messages; only if behind
local function rewind()
  local more = false
  local from = math.max(now, seen - 60000) -- instants due before that were done by then
  local before, rewound = redis.call('HGET', K, 'rewound') or '', whole(seen) .. ';'
  if string.sub(before, 1, #rewound) ~= rewound then
    before = ''
  end
  local tended = math.max(now, math.min(seen, redis.call('HGET', K, 'tended') or seen))
  local early = math.max(now, tended - 60000)

  -- By how much a wrong instant lies ahead: one before from is by the clock of the last tend.
  local function excess(at)
    return at >= seen - 60000 and behind or tended - now
  end

  -- Moves members of a sorted set with scores from start to stop: all, or those for which wrong has true.
  local function move(name, unit, start, stop, wrong)
    local first, passed = string.match(before, name .. ' (%S+) (%d+);')
    first = first or whole(start)
    if first == 'done' then
      rewound = rewound .. name .. ' done 0;'
      return
    end
    local list = redis.call('ZRANGEBYSCORE', prefix .. name, first, stop, 'WITHSCORES', 'LIMIT', passed or '0', '500')
    local names, moved, stay = {}, {}, 0
    for i = 1, #list, 2 do
      names[#names + 1] = list[i]
    end
    local chosen = #names > 0 and wrong and wrong(names)
    local looked = chosen and chosen.looked or #names
    local last = list[2 * looked]
    for i = 1, looked do
      if not chosen or chosen[i] then
        local by = chosen and excess(list[2 * i] + 0) or behind
        moved[#moved + 1], moved[#moved + 2] = string.format('%.1f', math.max(now * unit, list[2 * i] - by * unit)), names[i]
      elseif list[2 * i] == last then
        stay = stay + 1
      end
    end
    if #moved > 0 then
      redis.call('ZADD', prefix .. name, unpack(moved))
    end
    if #names == 500 or looked < #names then -- those that stay at the last instant are passed over next time
      more = true
      rewound = rewound .. name .. ' ' .. last .. ' ' .. whole(stay + (first == last and passed or 0)) .. ';'
    else
      rewound = rewound .. name .. ' done 0;'
    end
  end

  local function ahead(ids)
    local list = {}
    for i, id in ipairs(ids) do
      list[i] = (tonumber(string.match(id, '%d+')) or 0) > micros -- of a batch 'bID'
    end
    return list
  end

  n.since, n.others = math.min(n.since, now), math.min(n.others, now)
  local failing = redis.call('HGET', hot, 'f')
  sets.f = failing and string.gsub(failing, '\1(%d+ %d+) (%d+) (%d+) ', function(counts, began, last)
    return '\1' .. counts .. ' ' .. whole(math.min(began + 0, now)) .. ' ' .. whole(math.min(last + 0, now)) .. ' '
  end) or nil
  move('flight', 1, early, '(inf', function(receipts)
    local list = {}
    for i, value in ipairs(redis.call('HMGET', hot, unpack(receipts))) do
      local at, ends = tonumber(string.sub(value or '', 1, 16)) or 0, tonumber(string.sub(value or '', 17, 29)) or 0
      local extended, rest = string.match(value or '', '^(%d*)(.*)$', 32)
      list[i] = math.max(at, (tonumber(extended) or 0) * 1000) > micros
      if list[i] then
        at = at > micros and math.max(micros, at - 1000 * excess(ends)) or at
        sets[receipts[i]] = whole(at) .. whole(math.max(now, ends - excess(ends))) .. string.sub(value, 30, 31) .. rest
      end
    end
    return list
  end)
  move('delayed', 1, early, '(inf', function(members)
    local names, ids = {}, {}
    for i, member in ipairs(members) do
      ids[i] = string.sub(member, -16)
      names[i] = 'a' .. ids[i]
    end
    local list = ahead(ids)
    for i, past in ipairs(redis.call('HMGET', hot, unpack(names))) do
      local since = tonumber(string.match(past or '', '^%d+;(%d+);'))
      if since then -- a retry
        list[i] = since > now
      end
    end
    return list
  end)
  local room = 1048576
  move('deadlines', 1, early, '(inf', function(ids)
    local list = ahead(ids)
    for i, id in ipairs(ids) do
      if list[i] and room <= 0 then
        list.looked = i - 1
        break
      end
      local body = list[i] and redis.call('HGET', hot, id)
      local deadline, rest = string.match(body or '', '^(%d+)(%D.*)$')
      list[i] = deadline
      if deadline then
        sets[id], room = whole(math.max(now, deadline - excess(deadline + 0))) .. rest, room - #body
      end
    end
    return list
  end)
  move('dedupes', 1, early, '(inf', function(names)
    return ahead(redis.call('HMGET', dedupe, unpack(names)))
  end)
  move('asleep', 1, from, whole(seen + 3600000))
  move('buckets', 1000, from * 1000, '(inf')
  move('dead', 1, now + 1, '(inf')
  local due = redis.call('ZRANGEBYSCORE', prefix .. 'ticks', '(' .. whole(now), '(inf', 'LIMIT', '0', '1000')
  for _, name in ipairs(due) do
    redis.call('ZADD', prefix .. 'ticks', whole(now), name) -- so that its keeper looks
  end
  if more then
    redis.call('HSET', K, 'rewound', rewound)
  else
    redis.call('HDEL', K, 'rewound')
  end
  return more
end
