-- ick.add(K) count score member [score member ...] -> 0, 1, 2 or {score before, ...}
--
-- Folds marks into the producer set. A member that is there already keeps the
-- lower of its scores, so a mark says since when its member is dirty, however
-- often it is dirtied. The consumer set is not touched: a member in both sets
-- was dirtied again while a consumer had it.
--
-- One mark alone takes a short way. Of several the scores from before tell every
-- caller that shares the call what its own marks did.
--
-- KEYS[1]  K
-- ARGV[1]  count: of the marks that the pairs stand for; callers fold, too
-- ARGV     score member pairs, at most 1,000; the score 'now' is the server's
--          clock; none at all creates an empty Ick
-- Reply    of one mark: 1 if the member was new, 2 if its score was lowered,
--          else 0; of several: {the score that 'now' stood for, each member's
--          score before the call or nil}
-- Cost     O(log N) a member
-- Repeat   harmless: marks fold; a repeat's reply tells of the marks that the
--          first run made
local K = KEYS[1]
local pset = K .. '/ick/{' .. K .. '}/pset'

-- The common case reads only what it must. A key of a wrong type ends the script
-- here, before its first write.
local version = redis.call('GET', K)
local reserved = redis.call('ZCARD', K .. '/ick/{' .. K .. '}/cset')
if version ~= 'ick.v1' then
  if version then
    return redis.error_reply('ICKVERSION ' .. version)
  elseif reserved + redis.call('ZCARD', pset) > 0 then
    return redis.error_reply('ICKBROKEN the version key is missing')
  end
end

local now
if ARGV[2] == 'now' or ARGV[1] ~= '1' then
  local clock = redis.call('TIME')
  now = string.format('%s.%06d', clock[1], tonumber(clock[2]))
end

local new, reply = 0, 0
if ARGV[1] == '1' then
  local score, member = now or ARGV[2], ARGV[3]
  local before = redis.call('ZSCORE', pset, member)
  local old, young = before and tonumber(before), tonumber(score)
  if not before then
    new, reply = redis.call('ZADD', pset, score, member), 1
  elseif not (old and young and old <= young) then -- not every Lua reads infinities; ZADD does
    reply = 2 * redis.call('ZADD', pset, 'LT', 'CH', score, member)
  end
elseif #ARGV > 1 then
  local marks, members = {}, {}
  for i = 2, #ARGV, 2 do
    marks[i - 1], marks[i] = ARGV[i] == 'now' and now or ARGV[i], ARGV[i + 1]
    members[i / 2] = ARGV[i + 1]
  end
  local before = redis.call('ZMSCORE', pset, unpack(members))
  new = redis.call('ZADD', pset, 'LT', unpack(marks))
  reply = {now}
  for i = 1, #members do
    reply[i + 1] = before[i]
  end
end

if not version then
  redis.call('SET', K, 'ick.v1')
end
if new > 0 and redis.call('ZCARD', pset) == new then
  local wake = K .. '/ick/{' .. K .. '}/wake'
  if redis.call('EXISTS', wake) == 0 then
    redis.pcall('LPUSH', wake, '1')
  end
end
local folded = ARGV[1] - new
if folded > 0 then
  redis.pcall('HINCRBY', K .. '/ick/{' .. K .. '}/meta', 'folded', folded)
end
return reply
