-- ick.add(K) count score member [score member ...] -> {now, score before, ...}
--
-- Folds marks into the producer set. A member that is there already keeps the
-- lower of its scores, so a mark says since when its member is dirty, however
-- often it is dirtied. The consumer set is not touched: a member in both sets
-- was dirtied again while a consumer had it. The scores from before tell every
-- caller that shares the call what its own marks did.
--
-- KEYS[1]  K
-- ARGV[1]  count: of the marks that the pairs stand for; callers fold, too
-- ARGV     score member pairs, at most 1,000; the score 'now' is the server's
--          clock; none at all creates an empty Ick
-- Reply    {the score that 'now' stood for or '', each member's score before
--          the call or nil}
-- Cost     O(log N) a member
-- Repeat   harmless: marks fold; a repeat's reply tells of the marks that the
--          first run made
local K = KEYS[1]
local base = K .. '/ick/{' .. K .. '}/'
local pset, cset, meta, wake = base .. 'pset', base .. 'cset', base .. 'meta', base .. 'wake'

local version = redis.call('GET', K)
local waiting = redis.call('ZCARD', pset)
local reserved = redis.call('ZCARD', cset)
if version ~= 'ick.v1' then
  if version then
    return redis.error_reply('ICKVERSION ' .. version)
  elseif waiting + reserved > 0 then
    return redis.error_reply('ICKBROKEN the version key is missing')
  end
end

local now, marks, members = '', {}, {}
for i = 2, #ARGV, 2 do
  local score = ARGV[i]
  if score == 'now' then
    if now == '' then
      local clock = redis.call('TIME')
      now = string.format('%s.%06d', clock[1], tonumber(clock[2]))
    end
    score = now
  end
  marks[i - 1], marks[i] = score, ARGV[i + 1]
  members[#members + 1] = ARGV[i + 1]
end

local reply = {now}
if #members > 0 then
  local before = redis.call('ZMSCORE', pset, unpack(members))
  local new = redis.call('ZADD', pset, 'LT', unpack(marks))
  for i = 1, #members do
    reply[i + 1] = before[i]
  end
  if new > 0 then
    redis.pcall('HINCRBY', meta, 'new', new)
    if waiting == 0 and redis.call('EXISTS', wake) == 0 then
      redis.pcall('LPUSH', wake, '1')
    end
  end
  local folded = ARGV[1] - new
  if folded > 0 then
    redis.pcall('HINCRBY', meta, 'folded', folded)
  end
end
if not version then
  redis.call('SET', K, 'ick.v1')
end
return reply
