-- scatter.flush(K) by {kind life count value...} -> now
--
-- Writes a session completely or not at all. It checks the form of all arguments first. Then it
-- writes counters and lists at once: a write fails if a key has another type or a sum does not
-- fit, and then the writes before it are undone. Sets and sorted sets cannot be undone, because
-- the old state is unknown: they come last, and the types of all are checked before the first
-- one is written. Lists are trimmed and expiry times set when nothing can fail any more.
--
-- A full server refuses the first write.
--
-- Needs    open, clock, lane, form
-- KEYS[1]  K
-- ARGV[1]  by: until when the server certainly remembers an earlier try, in Unix milliseconds;
--          later the flush is refused
-- ARGV[2]  kind of the first run: 'add' come first, then 'float', then 'push', and then
--          'insert', 'score', 'best' and 'least'; at most 1,000 values in all
-- ARGV[3]  life: '' for ever; '@MS' until then, in Unix milliseconds; 'EVERY/KEEP', both in
--          milliseconds, for the current bucket by the server's clock
-- ARGV[4]  count of the values that follow
-- ARGV[5]  value: keys and summands in turn of 'add' and 'float'; of the others one key,
--          and then: the most entries of the list, from 1 to 10,000, and the bodies, the
--          oldest first, of 'push'; the members of 'insert'; members and numbers in turn of
--          the other three
-- Reply    the server's time in Unix milliseconds of the first try; an error TYPE or OVERFLOW
--          with the name of the value, or LATE
-- Cost     O(values), times O(log N) for sorted sets of N members
-- Repeat   harmless: the lane keeps the reply
if answered then
  return answered
end
if now > tonumber(ARGV[1]) then
  return redis.error_reply('LATE it is unknown whether an earlier try was applied')
end

local at, suffix, ending = 2, '', nil -- the position of the next value; its bucket
local runs, later = {}, {} -- writes to undo after an error; writes that come last
local ends, families, olds = {}, {}, nil -- by the key, by the key, of floats by their place
local forever = false -- whether a value has no end

-- Notes when a key ends. The longest life wins, with 100 ms of tolerance.
local function note_end(key)
  local left = not ends[key] and redis.call('PTTL', key)
  if not left or left == -2 or left >= 0 and now + left < ending - 100 then
    ends[key] = math.max(ends[key] or 0, ending)
  end
end

-- INCRBYFLOAT in a script corrupts the memory of some builds of Redis 6.2.
local function add_float(key, by)
  local old = redis.call('GET', key)
  if old and not finite(old) then
    error('WRONGTYPE')
  end
  olds = olds or {}
  redis.call('HSET', meta, 'sum', old or '0')
  local sum = redis.call('HINCRBYFLOAT', meta, 'sum', by)
  if not finite(sum) then
    error('OVERFLOW')
  end
  olds[at] = old
  redis.call('SET', key, sum, 'KEEPTTL')
end

local function write()
  local life = ''
  while ARGV[at] do
    local kind, first, last = ARGV[at], at + 3, at + 2 + ARGV[at + 2]
    forever = forever or ARGV[at + 1] == ''
    if ARGV[at + 1] ~= life then
      life, suffix, ending = ARGV[at + 1], '', nil
      local every, keep = string.match(life, '^(%d+)/(%d+)$')
      if every then
        local start = now - now % every
        suffix, ending = string.format(':%.0f', start / 1000), start + every + keep
      elseif life ~= '' then
        ending = tonumber(string.sub(life, 2))
      end
    end
    local step = (kind == 'add' or kind == 'float') and 2 or last - first + 1
    runs[#runs + 1] = {kind, first, last, step, suffix}
    for i = first, last, step do
      local key = ARGV[i] .. suffix
      at = i
      if ending then
        note_end(key)
      end
      if kind == 'add' then
        redis.call('INCRBY', key, ARGV[i + 1])
      elseif kind == 'float' then
        add_float(key, ARGV[i + 1])
      elseif kind == 'push' then
        local entries, moment = {}, string.format('%.0f ', now)
        for j = i + 2, last do
          entries[#entries + 1] = moment .. ARGV[j]
        end
        if redis.call('LPUSH', key, unpack(entries)) > tonumber(ARGV[i + 1]) then
          later[#later + 1] = {'push', key, i + 1}
        end
      else
        local family = kind == 'insert' and redis.call('SCARD', key) and 'set' or redis.call('ZCARD', key) and 'scores'
        if (families[key] or family) ~= family then
          error('WRONGTYPE')
        end
        families[key] = family
        later[#later + 1] = {kind, key, i + 1, last}
      end
    end
    at = last + 1
  end
  for _, what in ipairs(later) do
    local kind, key, first, last = unpack(what)
    if kind == 'push' then
      redis.call('LTRIM', key, '0', ARGV[first] - 1)
    elseif kind == 'insert' then
      redis.call('SADD', key, unpack(ARGV, first, last))
    else
      for i = first, last, 2 do
        if kind == 'score' then
          redis.call('ZINCRBY', key, ARGV[i + 1], ARGV[i])
        elseif kind == 'best' then
          redis.call('ZADD', key, 'GT', ARGV[i + 1], ARGV[i])
        else
          redis.call('ZADD', key, 'LT', ARGV[i + 1], ARGV[i])
        end
      end
    end
  end
end

local written, problem = pcall(write)

-- Undoes the writes before the one that failed, the last first. Deletes a counter that is 0
-- and has no end: it did not exist, or reads the same.
for r = written and 0 or #runs, 1, -1 do
  local kind, first, last, step, before = unpack(runs[r])
  for i = math.min(at, last + 1) - step, first, -step do
    local key, by = ARGV[i] .. before, ARGV[i + 1]
    if kind == 'push' then
      redis.call('LTRIM', key, last - first - 1, '-1')
    elseif kind == 'float' and olds[i] then
      redis.call('SET', key, olds[i], 'KEEPTTL')
    elseif kind == 'float' then
      redis.call('DEL', key)
    elseif kind == 'add' then
      if by == '-9223372036854775808' then -- it has no opposite
        redis.call('INCRBY', key, '9223372036854775807')
        by = '-1'
      end
      local opposite = by == '0' and by or string.gsub('-' .. by, '^%-%-', '')
      if redis.call('INCRBY', key, opposite) == 0 and redis.call('PTTL', key) == -1 then
        redis.call('DEL', key)
      end
    end
  end
end
if olds then
  redis.call('HDEL', meta, 'sum')
end
if not written then
  local text = type(problem) == 'table' and problem.err or problem
  local code = string.match(text, '%u+') -- behind the place in the script, which some servers put first
  -- Numbers have no code but ERR.
  if code == 'OVERFLOW' or code == 'ERR' and string.find(text, 'would overflow', 1, true) then
    return redis.error_reply('OVERFLOW "' .. ARGV[at] .. '"')
  elseif code == 'WRONGTYPE' or code == 'ERR' and string.find(text, 'is not an integer', 1, true) then
    return redis.error_reply('TYPE "' .. ARGV[at] .. '"')
  end
  return {err = text}
end
local latest = 0
for key, when in pairs(ends) do
  redis.call('PEXPIREAT', key, string.format('%.0f', when))
  latest = math.max(latest, when)
end
if latest > 0 and latest > tonumber(redis.call('HGET', meta, 'until') or 0) then
  redis.call('HSET', meta, 'until', string.format('%.0f', latest))
end
if forever and not known[2] then
  redis.call('HSET', meta, 'forever', '1')
end
if not known[1] then
  redis.call('HSET', meta, 'version', '1')
end
redis.call('HINCRBY', meta, 'flushes', 1)
return answer(string.format('%.0f', now), true)
