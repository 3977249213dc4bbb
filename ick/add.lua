-- ick.add(K) score member [score member ...] [folded] -> a letter for each mark
--
-- Adds marks to the producer set in their order. A member that is there keeps the lower
-- score: the time since when it is dirty. The consumer set is not touched: a member in both
-- sets changed while a consumer had it.
--
-- A mark that folds writes nothing, not even a counter: callers count folds and pass them
-- with a later call.
--
-- Touches  K, pset, cset, meta, wake, none, mr:channel:{K}
-- KEYS[1]  K
-- ARGV     score member pairs, at most 1,000 and about 1 MiB; the score 'now' is the
--          server's clock; no pair creates an empty Ick
-- ARGV     folded: folds of earlier calls to count together with those of this one; without
--          it none are counted
-- Reply    for each pair 'n' if its member is new, 'l' if its score was lowered, '.' if it
--          folded
-- Cost     O(log N) a member
-- Repeat   harmless: marks fold; the repeat replies '.' for those that the first run added
local marks, pset = ARGV, prefix .. 'pset'

-- Adds must be fast, so this reads only the keys it needs. A version key or producer set of a
-- wrong type ends the script here, before its first write.
local version = redis.call('GET', K)
local waiting = redis.call('ZCARD', pset)
if version ~= 'ick.v1' then
  if version and not string.find(version, '^ick%.') then
    return redis.error_reply('BROKEN the key of this name holds no Ick')
  elseif version then
    return redis.error_reply('VERSION ' .. version)
  elseif string.find(K, '^mr:') or string.find(K, '/ick/{', 1, true) then
    return redis.error_reply('ERR the name is that of a key of something else')
  elseif waiting + redis.call('ZCARD', prefix .. 'cset') > 0 then
    return redis.error_reply('BROKEN the version key is missing')
  elseif not string.find(K, '{', 1, true) and redis.pcall('EXISTS', 'mr:channel:{' .. K .. '}') == 1 then
    -- pcall: an ACL may deny this key.
    return redis.error_reply('ICKCHANNEL it is a channel')
  end
end

-- Checks the rest before the first write. Only ZADD knows which scores this server takes: it
-- parses all of them before it looks at its key, and with XX it creates none. A single mark's
-- ZADD is its own check.
local last, now = #marks - #marks % 2, nil
if last > 2000 then
  return redis.error_reply('ERR a call adds at most 1,000 marks')
elseif last < #marks and not string.find(marks[#marks], '^%d+$') then
  return redis.error_reply('ERR not a number of folds: ' .. marks[#marks])
end
for i = 1, last, 2 do
  if marks[i] == 'now' then
    if not now then
      local clock = redis.call('TIME')
      now = string.format('%s.%06d', clock[1], tonumber(clock[2]))
    end
    marks[i] = now
  end
end
if last > 2 then
  redis.call('ZADD', prefix .. 'none', 'XX', '0', '', unpack(marks, 1, last))
end

local outcomes, outcome, new = last > 2 and {}, '', 0
for i = 1, last, 2 do
  outcome = '.'
  if redis.call('ZADD', pset, 'LT', 'CH', marks[i], marks[i + 1]) == 1 then
    local grown = redis.call('ZCARD', pset)
    if grown > waiting then
      outcome, new, waiting = 'n', new + 1, grown
    else
      outcome = 'l'
    end
  end
  if outcomes then
    outcomes[(i + 1) / 2] = outcome
  end
end

if not version then
  redis.call('SET', K, 'ick.v1')
end
if new > 0 and new == waiting then
  local wake = prefix .. 'wake'
  if redis.call('EXISTS', wake) == 0 then
    redis.pcall('LPUSH', wake, '1')
  end
end
if last < #marks then
  local folded = marks[last + 1] + last / 2 - new
  if folded > 0 then
    redis.pcall('HINCRBY', prefix .. 'meta', 'folded', folded)
  end
end
return outcomes and table.concat(outcomes) or outcome
