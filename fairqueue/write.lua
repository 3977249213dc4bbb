-- fairqueue.write(K) id streams per group attempts window expiry count {shards delay ttl dedupe size field value ...} ... -> {...}
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
-- ARGV[5]  attempts: to store, how many deliveries a message has; 0 for no change
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
local known, known_per, total = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[8])
if try ~= '1' then -- also across a resize: what was written is not written again
  local before = reqid_recall(id)
  if before then
    local reply = {'written'}
    for one in string.gmatch(before, '%S+') do
      reply[#reply + 1] = one
    end
    return reply
  end
end
if streams > 0 and (streams ~= known or per ~= known_per) then
  return {'resized', streams, per}
end

local messages, arg, careful, shard_list, waiting_in = {}, 9, false, {}, {}
for j = 1, total do
  local size = tonumber(ARGV[arg + 4])
  local one = {
    shards = ARGV[arg], delay = tonumber(ARGV[arg + 1]), ttl = tonumber(ARGV[arg + 2]), name = ARGV[arg + 3],
    fields = {unpack(ARGV, arg + 5, arg + 4 + size)},
  }
  for i in string.gmatch(one.shards, '%d+') do
    if not waiting_in[i] then
      waiting_in[i], shard_list[#shard_list + 1] = 0, i
    end
  end
  messages[j], arg = one, arg + 5 + size
  careful = careful or one.delay > 0 or one.name ~= ''
end

-- Everything is looked at before the first write. What streams are is found out
-- by writing to them: that comes first, and is taken back if one of them fails.
redis.call('ZCARD', ready)
if careful then
  sound()
  redis.call('HLEN', dedupe)
  redis.call('ZCARD', dedupes)
end
for j, n in ipairs(redis.call('HMGET', waits, unpack(shard_list))) do
  waiting_in[shard_list[j]] = tonumber(n or 0)
end

local function emptiest(shards)
  local best
  for i in string.gmatch(shards, '%d+') do
    if not best or waiting_in[i] < waiting_in[best] then
      best = i
    end
  end
  return best
end

-- The outcome of an earlier write under the same dedupe id, or false.
local function written_before(name)
  if name == '' then
    return false
  end
  local until_ = tonumber(redis.call('ZSCORE', dedupes, name) or 0)
  return until_ > now and redis.call('HGET', dedupe, name)
end

local ids, aside, names, added = {}, 0, {}, {}
for j, one in ipairs(messages) do
  local message, fields = names[one.name] or written_before(one.name), one.fields
  if message then
    ids[j] = '=' .. message
  else
    if one.ttl > 0 then
      fields[#fields + 1] = 'd'
      fields[#fields + 1] = string.format('%.0f', now + one.ttl)
    end
    local i, at = emptiest(one.shards), string.format('%.0f', now + one.delay)
    local key, place = stream_key(i), i
    if one.delay > 0 then
      for _, word in ipairs({'w', string.format('%.0f', now), 's', i, 'u', at}) do
        fields[#fields + 1] = word
      end
      key, place = later, 'd'
    end
    local entry = redis.pcall('XADD', key, '*', unpack(fields))
    if entry.err then
      for _, done in ipairs(added) do
        redis.call('XDEL', done.stream and stream_key(done.stream) or later, done.entry)
      end
      return entry
    end
    added[#added + 1], message = {stream = place ~= 'd' and i, entry = entry}, entry .. '.' .. place
    if one.delay > 0 then
      one.entry, one.at, aside = entry, at, aside + 1
    else
      gained[i] = (gained[i] or 0) + 1
      waiting_in[i], came = waiting_in[i] + 1, came + 1
    end
    ids[j] = message
    if one.name ~= '' then
      names[one.name] = message
    end
  end
end
for _, one in ipairs(messages) do
  if one.entry then
    redis.call('ZADD', delayed, one.at, one.entry)
    call_at('d', tonumber(one.at))
  end
end
for name, message in pairs(names) do
  redis.call('HSET', dedupe, name, message)
  redis.call('ZADD', dedupes, string.format('%.0f', now + tonumber(ARGV[6])), name)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', dedupes, '-inf', now, 'LIMIT', 0, 10)) do
    redis.call('ZREM', dedupes, old)
    redis.call('HDEL', dedupe, old)
  end
end
if streams == 0 then
  redis.call('HSET', K, 'version', '1', 'streams', known, 'per_tenant', known_per, 'span', known, 'group', ARGV[4])
end
if ARGV[5] ~= '0' and ARGV[5] ~= found[10] then
  redis.call('HSET', K, 'attempts', ARGV[5])
end
if ARGV[7] ~= '0' or expiry then
  redis.call('HSET', K, 'expiry', ARGV[7] ~= '0' and ARGV[7] or expiry, 'touched', string.format('%.0f', now))
end
book()
count('later', aside)
reqid_remember(id, table.concat(ids, ' '), now_us)

-- A token for each message that waits, for readers that sleep: also for those that
-- found nothing before and have not gone to sleep yet. One more for what was set
-- aside, so that somebody sleeps no longer than that.
if aside > 0 then
  redis.pcall('LPUSH', wake, '1')
  redis.pcall('LTRIM', wake, 0, 63)
end
ring(came)
return {'written', unpack(ids)}
