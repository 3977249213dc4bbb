-- fairqueue.write(K) streams per group attempts window expiry careful shards {stream ...} {shard options size field value ...} ... -> {...}
--
-- Writes messages, each to the one of its tenant's streams in which the fewest
-- wait. A message with a delay is set aside until then.
--
-- Creates the queue if there is none. A writer that computed the tenants' streams
-- for another number of streams is told, and nothing is written.
--
-- Needs    waits, lane
-- Touches  dedupe, dedupes
-- KEYS[1]  K
-- ARGV[1]  streams: the number of streams that the writer knows, or wants for a
--          new queue
-- ARGV[2]  per: the same for how many a tenant has
-- ARGV[3]  group: of a new queue
-- ARGV[4]  attempts: to store, how many deliveries a message has; 0 for no change
-- ARGV[5]  window: for how many milliseconds a dedupe id counts
-- ARGV[6]  expiry: after how many milliseconds without a write or a read an empty
--          queue may go; 0 for never; with a '!' behind, a full one may, too
-- ARGV[7]  careful: '1' if a message has options
-- ARGV[8]  shards: how many tenants' streams follow
-- ARGV     for each tenant, its streams, per of them, those preferred first
-- ARGV     for each message, at most 1,000: which of those shards is its own, from
--          1 on; '' or its options, 'DELAY TTL NAME', the first two in milliseconds
--          and 0 for none, and the dedupe id or nothing; how many texts follow;
--          field, value, ...
-- Reply    {'resized', streams, per} or {'written', message ids with spaces in
--          between}; the id of one that was written before under its dedupe id has
--          a '=' in front
-- Cost     O(streams of a tenant) a message
-- Repeat   harmless: the lane knows the answer
local known, known_per = tonumber(ARGV[1]), tonumber(ARGV[2])
if answered then -- also across a resize: what was written is not written again
  return {'written', answered}
end
if streams > 0 and (streams ~= known or per ~= known_per) then
  return {'resized', streams, per}
end

-- Everything is looked at before the first write. What streams are is found out
-- by writing to them: that comes first, and is taken back if one of them fails.
local later, delayed, dedupe, dedupes = K .. ':later', K .. ':delayed', K .. ':dedupe', K .. ':dedupes'
if ARGV[7] == '1' then
  sound()
  redis.call('HLEN', dedupe)
  redis.call('ZCARD', dedupes)
end

local arg, shards = 9, {}
for s = 1, tonumber(ARGV[8]) do
  local shard = {}
  for j = 1, known_per do
    shard[j] = tonumber(ARGV[arg])
    arg = arg + 1
  end
  shards[s] = shard
end

local function emptiest(shard)
  local best = shard[1]
  local fewest = waits_in(best)
  for j = 2, #shard do
    local n = waits_in(shard[j])
    if n < fewest then
      best, fewest = shard[j], n
    end
  end
  return best
end

-- The outcome of an earlier write under the same dedupe id, or false.
local function written_before(name)
  local until_ = tonumber(redis.call('ZSCORE', dedupes, name) or 0)
  return until_ > now and redis.call('HGET', dedupe, name)
end

local ids, fresh, aside, names, dying = {}, {}, {}, {}, false
while arg <= #ARGV do
  local i, options, last = emptiest(shards[tonumber(ARGV[arg])]), ARGV[arg + 1], arg + 2 + tonumber(ARGV[arg + 2])
  local key, place, message, entry, name = stream_key(i), i, false, nil, ''
  if options == '' then
    entry = redis.pcall('XADD', key, '*', unpack(ARGV, arg + 3, last))
  else
    local delay, ttl
    delay, ttl, name = string.match(options, '^(%d+) (%d+) (.*)$')
    delay, ttl = tonumber(delay), tonumber(ttl)
    message = name ~= '' and (names[name] or written_before(name))
    if not message then
      local fields = {unpack(ARGV, arg + 3, last)}
      if ttl > 0 then
        fields[#fields + 1] = 'd'
        fields[#fields + 1] = string.format('%.0f', now + ttl)
        dying = true
      end
      if delay > 0 then
        local at = string.format('%.0f', now + delay)
        for _, word in ipairs({'w', string.format('%.0f', now), 's', i, 'u', at}) do
          fields[#fields + 1] = word
        end
        key, place = later, 'd'
        aside[#aside + 1] = at
      end
      entry = redis.pcall('XADD', key, '*', unpack(fields))
    end
  end
  if message then
    ids[#ids + 1] = '=' .. message
  elseif entry.err then
    for _, done in ipairs(fresh) do
      local added, where = string.match(done, '^(.*)%.(.*)$')
      redis.call('XDEL', where == 'd' and later or stream_key(where), added)
    end
    return entry
  else
    if place == 'd' then
      aside[#aside + 1] = entry
    else
      come(i, 1)
    end
    message = entry .. '.' .. place
    ids[#ids + 1], fresh[#fresh + 1] = message, message
    if name ~= '' then
      names[name] = message
    end
  end
  arg = last + 1
end

if #aside > 0 then
  local soonest = aside[1]
  for j = 1, #aside, 2 do
    redis.call('ZADD', delayed, aside[j], aside[j + 1])
    soonest = math.min(soonest, aside[j])
  end
  redis.call('ZADD', K .. ':due', 'LT', string.format('%.0f', soonest), 'd')
end
for name, message in pairs(names) do
  redis.call('HSET', dedupe, name, message)
  redis.call('ZADD', dedupes, string.format('%.0f', now + tonumber(ARGV[5])), name)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', dedupes, '-inf', now, 'LIMIT', 0, 10)) do
    redis.call('ZREM', dedupes, old)
    redis.call('HDEL', dedupe, old)
  end
end
if streams == 0 then
  redis.call('HSET', K, 'version', '1', 'streams', known, 'per_tenant', known_per, 'span', known, 'group', ARGV[3], 'cursor', '0',
    'in', '0', 'out', '0')
end
if ARGV[4] ~= '0' and ARGV[4] ~= found[10] then
  redis.call('HSET', K, 'attempts', ARGV[4])
end
if dying and not mortal then
  redis.call('HSET', K, 'mortal', '1')
end
if ARGV[6] ~= '0' or expiry then
  redis.call('HSET', K, 'expiry', ARGV[6] ~= '0' and ARGV[6] or expiry, 'touched', string.format('%.0f', now))
end
book()
count('later', #aside / 2)
local written = answer(table.concat(ids, ' '))

-- A token for each message that waits, for readers that sleep: also for those that
-- found nothing before and have not gone to sleep yet. One more for what was set
-- aside, so that somebody sleeps no longer than that.
if #aside > 0 then
  redis.pcall('LPUSH', K .. ':wake', '1')
  redis.pcall('LTRIM', K .. ':wake', 0, 63)
end
ring(came)
return {'written', written}
