-- fragment waits: how many messages wait in each stream
--
-- One string holds all the numbers, four bytes a stream, the most significant
-- first. So one command brings them all, and the streams in which messages wait
-- are where a byte is not zero.
--
-- Needs    open
-- Gives    packed: the string as it was
--          waits_in(i): how many wait in stream i
--          come(i, n), go(i, n): n more, or fewer, wait in it
--          came, left: how many did, of all streams
--          waiting(): how many wait in all
--          book(): writes down what come and go did; once, at the end
--          ring(n): tokens for n readers, as many as messages wait, 64 at most
local waits = K .. ':waits'
local packed = redis.call('GET', waits) or ''
local sizes, changed = {}, {}
local came, left = 0, 0

local function waits_in(i)
  local n = sizes[i]
  if not n then
    local a, b, c, d = string.byte(packed, 4 * i + 1, 4 * i + 4)
    n = d and ((a * 256 + b) * 256 + c) * 256 + d or 0
    sizes[i] = n
  end
  return n
end

local function come(i, n)
  sizes[i], changed[i], came = waits_in(i) + n, true, came + n
end

local function go(i, n)
  sizes[i], changed[i], left = math.max(0, waits_in(i) - n), true, left + n
end

local function waiting()
  return counted_in - counted_out + came - left
end

local function book()
  if left > 0 and waiting() <= 0 then
    redis.call('DEL', waits)
    changed = {}
  end
  for i in pairs(changed) do
    local n = sizes[i]
    local four = n < 256 and '\0\0\0' .. string.char(n) or
      string.char(math.floor(n / 16777216), math.floor(n / 65536) % 256, math.floor(n / 256) % 256, n % 256)
    redis.call('SETRANGE', waits, 4 * i, four)
  end
  count('in', came)
  count('out', left)
end

local function ring(n)
  if n > 0 then
    local wake = K .. ':wake'
    local has = redis.pcall('LLEN', wake)
    local more = type(has) == 'number' and math.min(n, 64 - has, waiting() - has) or 0
    if more > 0 then
      local tokens = {}
      for j = 1, more do
        tokens[j] = '1'
      end
      redis.pcall('LPUSH', wake, unpack(tokens))
    end
  end
end
