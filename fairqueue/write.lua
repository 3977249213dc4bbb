-- queue.write(K) id streams per group attempts window expiry count {shards delay ttl dedupe window size field value ...} ... -> {...}
--
-- Writes messages, each to the one of its tenant's streams in which the fewest
-- wait. A message with a delay is set aside until then.
--
-- Creates the queue if there is none. A writer that computed the tenants' streams
-- for another number of streams is told, and nothing is written.
--
-- KEYS[1]  K
-- ARGV[1]  id: of the request
-- ARGV[2]  streams: the number of streams that the writer knows, or wants for a
--          new queue
-- ARGV[3]  per: the same for how many a tenant has
-- ARGV[4]  group: of a new queue
-- ARGV[5]  attempts: of a new queue, for upkeep that no reader does
-- ARGV[6]  window: for how many milliseconds a dedupe id counts
-- ARGV[7]  expiry: after how many milliseconds without a write or a read an empty
--          queue may go; 0 for never; with a '!' behind, a full one may, too
-- ARGV[8]  count: of messages, at most 1,000
-- ARGV     for each message: its tenant's streams, separated by commas, those
--          preferred first; delay and ttl in milliseconds, 0 for none; its dedupe
--          id or ''; how many texts follow; field, value, ...
-- ARGV     last, the number of the try
-- Reply    {'resized', streams, per} or {'written', message id, ...}; the id of
--          one that was written before under its dedupe id has a '=' in front
-- Cost     O(streams of a tenant) a message
-- Repeat   harmless: the answer is replayed by id
local id, try = ARGV[1], ARGV[#ARGV]
local known, known_per = tonumber(ARGV[2]), tonumber(ARGV[3])
if streams > 0 and (streams ~= known or per ~= known_per) then
  return {'resized', streams, per}
end
if try ~= '1' then
  local before = reqid_recall(id)
  if before then
    local reply = {'written'}
    for one in string.gmatch(before, '%S+') do
      reply[#reply + 1] = one
    end
    return reply
  end
end
if streams == 0 then
  streams, per, span, group = known, known_per, known, ARGV[4]
  redis.call('HSET', K, 'version', '1', 'streams', streams, 'per_tenant', per, 'span', span, 'group', group,
    'attempts', ARGV[5])
end
if ARGV[7] ~= '0' then
  redis.call('HSET', K, 'expiry', ARGV[7], 'touched', string.format('%.0f', now))
end

local function emptiest(shards)
  local indices = {}
  for i in string.gmatch(shards, '%d+') do
    indices[#indices + 1] = i
  end
  local best, least
  for j, n in ipairs(redis.call('HMGET', waits, unpack(indices))) do
    n = tonumber(n or 0)
    if not least or n < least then
      best, least = indices[j], n
    end
    if n == 0 then
      break
    end
  end
  return best
end

-- The outcome of an earlier write under the same dedupe id, or false.
local function written_before(name)
  if name == '' then
    return false
  end
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', dedupes, '-inf', now, 'LIMIT', 0, 10)) do
    redis.call('ZREM', dedupes, old)
    redis.call('HDEL', dedupe, old)
  end
  local until_ = tonumber(redis.call('ZSCORE', dedupes, name) or 0)
  return until_ > now and redis.call('HGET', dedupe, name)
end

local ids, added, aside, arg = {}, 0, 0, 9
for _ = 1, tonumber(ARGV[8]) do
  local shards, delay, ttl = ARGV[arg], tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local name, size = ARGV[arg + 3], tonumber(ARGV[arg + 4])
  local fields = {unpack(ARGV, arg + 5, arg + 4 + size)}
  arg = arg + 5 + size
  local message = written_before(name)
  if message then
    ids[#ids + 1] = '=' .. message
  else
    if ttl > 0 then
      fields[#fields + 1] = 'd'
      fields[#fields + 1] = string.format('%.0f', now + ttl)
    end
    local i = emptiest(shards)
    if delay > 0 then
      fields[#fields + 1] = 'w'
      fields[#fields + 1] = string.format('%.0f', now)
      fields[#fields + 1] = 's'
      fields[#fields + 1] = i
      local entry = redis.call('XADD', later, '*', unpack(fields))
      redis.call('ZADD', delayed, string.format('%.0f', now + delay), entry)
      call_at('d', now + delay)
      message, aside = entry .. '.d', aside + 1
    else
      message, added = put(i, fields) .. '.' .. i, added + 1
    end
    ids[#ids + 1] = message
    if name ~= '' then
      redis.call('HSET', dedupe, name, message)
      redis.call('ZADD', dedupes, string.format('%.0f', now + tonumber(ARGV[6])), name)
    end
  end
end
count('in', added)
count('later', aside)
reqid_remember(id, table.concat(ids, ' '), now_us)

-- One token a message, for as many readers as may wait; a reader whose wait ends
-- without one looks within a second.
local tokens = math.min(added + math.min(aside, 1), 64) - redis.call('LLEN', wake)
for _ = 1, tokens do
  redis.call('LPUSH', wake, '1')
end
return {'written', unpack(ids)}
