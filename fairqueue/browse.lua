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
-- ARGV[3]  flow: of those that wait in flows of tenants, only those whose members start so, with
--          \1 or \2c at the end; '' for all
-- ARGV[4]  after: where the page before ended, '' for the beginning: a member of backlog, or of
--          another set a score and a rank among those with that score, 'SCORE RANK'
-- Reply    nil without a queue, else {the server's clock; where the next page starts or '';
--          member, score, body or nil, record of the death or nil ...}
-- Cost     O(log N) and O(1) a message
-- Repeat   harmless: it only reads
if not exists then
  return false
end
local set, max, after = ARGV[1], tonumber(ARGV[2]), ARGV[4]
local members, reply, room = {}, {now, ''}, 1048576
local score, rank = string.match(after, '^(%d+) (%d+)$')
local from, to = score or '-inf', '(inf'
local function add(low, high)
  for _, member in ipairs(redis.call('ZRANGEBYLEX', backlog, low, high, 'LIMIT', 0, max - #members / 2)) do
    members[#members + 1] = member
    members[#members + 1] = '0'
  end
end
if set == 'backlog' then
  add('(' .. after, ARGV[3] == '' and '+' or '(=') -- streams come before tenants
  if ARGV[3] ~= '' then
    local beyond = string.sub(ARGV[3], 1, -2) .. string.char(string.byte(ARGV[3], -1) + 1)
    add((string.sub(after, 1, 1) == '=' and '(' .. after or '[' .. ARGV[3]), '(' .. beyond)
  end
elseif set == 'flight' then
  members = redis.call('ZRANGEBYSCORE', prefix .. 'flight', from, to, 'WITHSCORES', 'LIMIT', rank or 0, max)
elseif set == 'delayed' then
  members = redis.call('ZRANGEBYSCORE', prefix .. 'delayed', from, to, 'WITHSCORES', 'LIMIT', rank or 0, max)
else
  members = redis.call('ZRANGEBYSCORE', prefix .. 'dead', from, to, 'WITHSCORES', 'LIMIT', rank or 0, max)
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
    rank = members[i + 1] == score and rank + 1 or 1
    score = members[i + 1]
    reply[2] = i + 1 >= 2 * max and '' or reply[2]
    if room <= 0 or i + 1 == 2 * max then
      reply[2] = set == 'backlog' and member or score .. ' ' .. whole(rank)
    end
  end
end
return reply
