-- fairqueue.browse(K) set max flow after -> {...} or nil
--
-- Shows messages without taking them. It ends early after a mebibyte.
--
-- Needs    record
-- Touches  flight, delayed, dead, deaths
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  set: backlog, flight, delayed or dead
-- ARGV[2]  max: how many, at most 50
-- ARGV[3]  flow: of those that wait in flows of tenants, only those of this one; '' for all
-- ARGV[4]  after: where the page before ended, '' for the beginning: a member of backlog, or of
--          another set a score and a member, 'SCORE MEMBER'; it may be gone by now
-- Reply    nil without a queue, else {the server's clock; where the next page starts or '';
--          member, score, body or nil, record of the death or nil ...}
-- Cost     O(log N * log M) for M members with that score, and O(1) a message
-- Repeat   harmless: it only reads
if not exists then
  return false
end
local set, max, after = ARGV[1], tonumber(ARGV[2]), ARGV[4]
local members, reply, room = {}, {now, ''}, 1048576
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
local function list(key)
  local score, last = string.match(after, '^(%d+) (.+)$')
  local first, past = 0, 0
  if score then
    first = redis.call('ZCOUNT', key, '-inf', '(' .. score)
    past = first + redis.call('ZCOUNT', key, score, score)
  end
  while first < past do
    local middle = math.floor((first + past) / 2)
    if later(redis.call('ZRANGE', key, middle, middle)[1], last) then
      past = middle
    else
      first = middle + 1
    end
  end
  members = redis.call('ZRANGE', key, first, first + max - 1, 'WITHSCORES')
end
local function add(low, high)
  for _, member in ipairs(redis.call('ZRANGEBYLEX', backlog, low, high, 'LIMIT', 0, max - #members / 2)) do
    members[#members + 1] = member
    members[#members + 1] = '0'
  end
end
if set == 'backlog' then
  add('(' .. after, ARGV[3] == '' and '+' or '(=') -- streams come before tenants
  if ARGV[3] ~= '' then
    add(string.sub(after, 1, 1) == '=' and '(' .. after or '[' .. ARGV[3] .. '\1', '(' .. ARGV[3] .. '\2')
  end
elseif set == 'flight' then
  list(prefix .. 'flight')
elseif set == 'delayed' then
  list(prefix .. 'delayed')
else
  list(prefix .. 'dead')
end
for i = 1, #members, 2 do
  local member = members[i]
  local id = set == 'backlog' and string.match(member, '\1.(%d+)') or set == 'delayed' and string.match(member, '\1.(%d+)') or
    set == 'flight' and string.sub(member, 2, 17) or member
  if member ~= '' and room > 0 then
    local body = redis.call('HGET', messages, id)
    for _, word in ipairs({member, members[i + 1], body, set == 'dead' and redis.call('HGET', prefix .. 'deaths', id)}) do
      reply[#reply + 1] = word
    end
    room = room - (body and #body or 0)
    if room <= 0 or i + 1 == 2 * max then
      reply[2] = set == 'backlog' and member or members[i + 1] .. ' ' .. member
    end
  end
end
return reply
