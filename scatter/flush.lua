-- scatter.flush(K) {kind key life count value...} -> 'done'
--
-- Writes all that a session has, or nothing. The first pass looks at every key: its
-- type, and whether a sum would still fit; the second one writes. The first write is
-- one that a full server refuses, and after it nothing fails.
--
-- Numbers of 64 bits do not fit into Lua's. So sums are checked in two parts, billions
-- and the rest.
--
-- Needs    open, clock, lane
-- KEYS[1]  K
-- ARGV[1]  kind of the first operation: 'add', 'float', 'push', 'insert', 'score',
--          'best', 'least'; at most 1,000 values in all
-- ARGV[2]  key: the value's name
-- ARGV[3]  life: '' for ever; '@MS' until then, in Unix milliseconds; 'EVERY/KEEP', both
--          in milliseconds, for the bucket that it is now by the server's clock
-- ARGV[4]  count of the values that follow
-- ARGV[5]  value: one summand of 'add' and 'float'; the most entries of the list, from
--          1 to 10,000, and the bodies, the oldest first, of 'push'; the members of
--          'insert'; members and numbers in turn of the others
-- Reply    'done'; an error TYPE or OVERFLOW with the name of the value it is about
-- Cost     O(values), times O(log N) for sorted sets of N members
-- Repeat   harmless: the lane knows the answer
if answered then
  return answered
end

-- What no server takes for a number of 64 bits is nil.
local function split(text)
  local sign, digits = string.match(text, '^(-?)(%d+)$')
  if not digits or #digits > 19 or string.byte(digits) == 48 and text ~= '0' then
    return nil
  end
  local unit = sign == '-' and -1 or 1
  return unit * (tonumber(string.sub(digits, 1, -10)) or 0), unit * string.sub(digits, -9)
end

local function fits(billions, rest)
  billions, rest = billions + math.floor(rest / 1e9), rest % 1e9
  return (billions < 9223372036 or billions == 9223372036 and rest <= 854775807)
    and (billions > -9223372037 or billions == -9223372037 and rest >= 145224192)
end

local names, ends = {}, {} -- by the operation
local families, billions, rests = {}, {}, {} -- by the key, which may come twice
local life, suffix, at = '', '', nil -- of the operation before, mostly that of the next
local i = 1
while ARGV[i] do
  local kind = ARGV[i]
  if ARGV[i + 2] ~= life then
    life, suffix, at = ARGV[i + 2], '', nil
    local every, keep = string.match(life, '^(%d+)/(%d+)$')
    local own = string.match(life, '^@(%d+)$')
    if every then
      local start = now - now % every
      suffix, at = string.format(':%.0f', start / 1000), start + every + keep
    elseif own then
      at = tonumber(own)
    end
  end
  names[i], ends[i] = ARGV[i + 1] .. suffix, at
  local key = names[i]
  local family, value = kind
  if kind == 'add' or kind == 'float' then
    value = redis.pcall('GET', key) or '0'
  elseif kind == 'push' then
    value = redis.pcall('LLEN', key)
  elseif kind == 'insert' then
    value = redis.pcall('SCARD', key)
  else
    family, value = 'scores', redis.pcall('ZCARD', key)
  end
  local fine, fit = type(value) ~= 'table' and (families[key] or family) == family, true
  if fine and kind == 'add' then
    local more, b, r = ARGV[i + 4], billions[key], rests[key]
    if not b and #value < 15 and #more < 15 and (value == '0' or string.find(value, '^-?[1-9]%d*$')) then
      billions[key], rests[key] = 0, value + more -- which Lua does not round
    else
      if not b then
        b, r = split(value)
      end
      fine = b and fits(b, r)
      if fine then
        local more_b, more_r = split(more)
        billions[key], rests[key] = b + more_b, r + more_r
        fit = fits(billions[key], rests[key])
      end
    end
  elseif fine and kind == 'float' then
    local sum = rests[key] or string.find(value, '^[-+.%d][-+.%deE]*$') and tonumber(value)
    fine = sum and math.abs(sum) < math.huge
    if fine then
      rests[key] = sum + ARGV[i + 4]
      fit = math.abs(rests[key]) < math.huge
    end
  end
  if not fine or not fit then
    return redis.error_reply((fine and 'OVERFLOW "' or 'TYPE "') .. ARGV[i + 1] .. '"')
  end
  families[key] = family
  i = i + 4 + ARGV[i + 3]
end

local moment = string.format('%.0f ', now)
local writes = 0
i = 1
while ARGV[i] do
  local kind, key, count = ARGV[i], names[i], tonumber(ARGV[i + 3])
  local first, last = i + 4, i + 3 + count
  local ending = ends[i]
  local left = ending and redis.call('PTTL', key)
  if kind == 'add' then
    redis.call('INCRBY', key, ARGV[first])
  elseif kind == 'float' then
    -- INCRBYFLOAT in a script ruins the memory of some builds of Redis 6.2.
    redis.call('HSET', meta, 'sum', redis.call('GET', key) or '0')
    redis.call('SET', key, redis.call('HINCRBYFLOAT', meta, 'sum', ARGV[first]), 'KEEPTTL')
    redis.call('HDEL', meta, 'sum')
  elseif kind == 'push' then
    for j = first + 1, last do
      redis.call('LPUSH', key, moment .. ARGV[j])
    end
    redis.call('LTRIM', key, '0', ARGV[first] - 1)
    count = count - 1
  elseif kind == 'insert' then
    redis.call('SADD', key, unpack(ARGV, first, last))
  else
    count = count / 2
    for j = first, last, 2 do
      if kind == 'score' then
        redis.call('ZINCRBY', key, ARGV[j + 1], ARGV[j])
      elseif kind == 'best' then
        redis.call('ZADD', key, 'GT', ARGV[j + 1], ARGV[j])
      else
        redis.call('ZADD', key, 'LT', ARGV[j + 1], ARGV[j])
      end
    end
  end
  if left == -2 or left and left >= 0 and now + left < ending then
    redis.call('PEXPIREAT', key, string.format('%.0f', ending))
  end
  writes = writes + count
  i = last + 1
end
if not versioned then
  redis.call('HSET', meta, 'version', '1')
end
redis.call('HINCRBY', meta, 'flushes', 1)
redis.call('HINCRBY', meta, 'writes', writes)
return answer('done', true)
