-- fairqueue.browse(K) state max flow after -> {...} or nil
--
-- Shows messages without taking them. It ends early after a mebibyte, and looks at 50 flows at most.
--
-- Needs    record, flows
-- Touches  young, flight, delayed, dead, deaths, blocked, asleep
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  state: waiting, flight, delayed or dead
-- ARGV[2]  max: how many, at most 50
-- ARGV[3]  flow: only waiting messages of this flow; '' for all
-- ARGV[4]  after: the end of the previous page, '' for the beginning: 'SET SCORE MEMBER', and for
--          waiting messages \1, priority and id behind it; that message may be gone by now
-- Reply    nil without a queue, else {the server's clock; where the next page starts or '';
--          FLOW \1 PRIORITY ID with ';', its deliveries, ';' and since when it waits, or the id of a dead message; when it is due or died, or '0'; body or nil; the
--          record of the death, else of a delivery its receipt, its kind and its instant in microseconds, and why it was given back last ...}
-- Cost     O(log N * log M) for M members with that score, and O(1) a message and flow; O(N) in the
--          deliveries of the last second
-- Repeat   harmless: it only reads
if not exists then
  return false
end
local state, max, shown, room, last = ARGV[1], tonumber(ARGV[2]), 0, 1048576, ''
local place, score, member = string.match(ARGV[4], '^(%l+) (%S+) (.*)$')
local reply = {now, ''}

-- later compares bytes, as sorted sets do and < in Lua does not.
local function later(a, b)
  for i = 1, math.max(#a, #b) do
    local x, y = string.byte(a, i) or -1, string.byte(b, i) or -1
    if x ~= y then
      return x > y
    end
  end
  return false
end

-- The members of a sorted set behind a score and a member.
local function list(name, after_score, after)
  local key, first, past = prefix .. name, 0, 0
  if after_score then
    first = redis.call('ZCOUNT', key, '-inf', '(' .. after_score)
    past = first + redis.call('ZCOUNT', key, after_score, after_score)
  end
  while first < past do
    local middle = math.floor((first + past) / 2)
    if later(redis.call('ZRANGE', key, middle, middle)[1], after) then
      past = middle
    else
      first = middle + 1
    end
  end
  return redis.call('ZRANGE', key, first, first + max, 'WITHSCORES')
end

-- Shows a message, and reports whether there is room for more.
local function show(where, text, at, id, record)
  local body, made = unpack(redis.call('HMGET', hot, id, 'a' .. id))
  local owner = string.find(text, '^#') and string.match(body or '', '^[%d*@,]*:.#%d+(=[^\1]*)') or ''
  local past, why = string.match(made or '', '^(%d+;%d+);([^\1]*)')
  text, record = text .. (past and ';' .. past or '') .. owner, state == 'dead' and record or (record or '') .. (why or '')
  for _, word in ipairs({text, at, body, record}) do
    reply[#reply + 1] = word
  end
  shown, room, last = shown + 1, room - (body and #body or 0), where
  return shown < max and room > 0
end

-- Shows the entries of a flow behind one, and reports whether there is room for more.
local function show_flow(where, flow, after)
  local record, entries = record_of(flow), {}
  for at = 2, record and #record or 0, 18 do
    entries[#entries + 1] = string.sub(record, at, at + 16) > after and string.sub(record, at, at + 17) or nil
  end
  if record and string.byte(record) == 43 and #entries < max then
    for _, text in ipairs(redis.call('ZRANGEBYLEX', backlog, '(' .. flow .. '\1' .. after .. (after == '' and '' or '\255'), '(' .. flow .. '\2',
      'LIMIT', '0', whole(max))) do
      entries[#entries + 1] = string.sub(text, #flow + 2)
    end
  end
  for _, entry in ipairs(entries) do
    local start = string.sub(entry, 1, 17)
    if not show(where .. '\1' .. start, flow .. '\1' .. start, '0', string.sub(entry, 2, 17), false) then
      return false
    end
  end
  return true
end

local more = true
if state == 'waiting' and ARGV[3] ~= '' and not redis.call('HGET', K, 'streamed') then
  more = show_flow('flow 0 ' .. ARGV[3], ARGV[3], string.match(member or '', '\1(%d+)$') or '')
elseif state == 'waiting' then
  local start, looked = member and string.match(member, '\1(%d+)$') or '', 0
  member = member and string.match(member, '^[^\1]*')
  for _, name in ipairs({'blocked', 'asleep', 'active'}) do
    if more and (not place or place == name) then
      if place and start ~= '' then
        more = show_flow(place .. ' ' .. score .. ' ' .. member, member, start)
      end
      local flows = more and list(name, place and score, member) or {}
      for i = 1, #flows, 2 do
        if more and string.find(flows[i], '^[=#]') then
          looked, last = looked + 1, name .. ' ' .. flows[i + 1] .. ' ' .. flows[i]
          more = show_flow(last, flows[i], '')
          if looked == 50 then
            more = false
          end
        end
      end
      place = nil
    end
  end
elseif state == 'flight' then
  local receipts = {} -- those that are young first: they become old, and then come again
  if place ~= 'flight' then
    local from = place and redis.call('LPOS', prefix .. 'young', member) or 0
    for _, receipt in ipairs(redis.call('LRANGE', prefix .. 'young', whole(from + 1), '-1')) do
      receipts[#receipts + 1] = receipt
      receipts[#receipts + 1] = false
    end
  end
  for _, word in ipairs(list('flight', place == 'flight' and score, member)) do
    receipts[#receipts + 1] = word
  end
  for i = 1, #receipts, 2 do
    local receipt = receipts[i]
    local value = more and receipt ~= '' and redis.call('HGET', hot, receipt)
    if value and (receipts[i + 1] or string.byte(value, 31) == 46) then -- . ; else flight has it
      local ends = receipts[i + 1] or string.sub(value, 17, 29)
      local id, flow = string.sub(receipt, 1, 16), string.match(value, '^%d*@?%d*(#%d+)', 32) or string.match(value, '=.*$', 32)
      local priority = string.match(redis.call('HGET', hot, id) or '', '^[%d*@,]*:(.)')
      more = show((receipts[i + 1] and 'flight ' .. ends or 'young 0') .. ' ' .. receipt, flow .. '\1' .. (priority or '4') .. id, ends, id,
        receipt .. string.sub(value, 30, 30) .. string.sub(value, 1, 16))
    end
  end
else
  local members = list(state, score, member)
  for i = 1, #members, 2 do
    local text, at = members[i], members[i + 1]
    if more and text ~= '' then
      local id = state == 'delayed' and string.match(text, '\1.(%d+)') or text
      local record = state == 'dead' and redis.call('HGET', prefix .. 'deaths', id)
      more = show(state .. ' ' .. at .. ' ' .. text, text, at, id, record)
    end
  end
end
reply[2] = more and '' or last
return reply
