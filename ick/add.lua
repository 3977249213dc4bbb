-- ick.add(K) [count] score member [score member ...] -> 0, 1, 2 or {score before, ..., now}
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
-- ARGV     of one mark: score, member; else count, the number of marks that the
--          pairs stand for, since callers fold, too, and at most 1,000 pairs; the
--          score 'now' is the server's clock; no pairs create an empty Ick
-- Reply    of one mark: 1 if the member was new, 2 if its score was lowered,
--          else 0; of several: {each member's score before the call or nil,
--          the score that 'now' stood for}
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

local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], tonumber(time[2]))
end

local count, new, reply = 1, 0, 0
if #ARGV == 2 then
  local score, member = ARGV[1], ARGV[2]
  if score == 'now' then
    score = clock()
  end
  local before = redis.call('ZSCORE', pset, member)
  local old, young = before and tonumber(before), tonumber(score)
  if not before then
    new, reply = redis.call('ZADD', pset, score, member), 1
  elseif not (old and young and old <= young) then -- not every Lua reads infinities; ZADD does
    reply = 2 * redis.call('ZADD', pset, 'LT', 'CH', score, member)
  end
else
  count = tonumber(ARGV[1])
  local now, members = clock(), {}
  for i = 2, #ARGV, 2 do
    if ARGV[i] == 'now' then
      ARGV[i] = now
    end
    members[i / 2] = ARGV[i + 1]
  end
  if #members > 0 then
    reply = redis.call('ZMSCORE', pset, unpack(members))
    reply[#members + 1] = now
    new = redis.call('ZADD', pset, 'LT', unpack(ARGV, 2))
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
if count > new then
  redis.pcall('HINCRBY', K .. '/ick/{' .. K .. '}/meta', 'folded', count - new)
end
return reply
