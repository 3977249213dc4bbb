-- fragment record: the queue's record
--
-- hot is one hash for all whose name a call knows. Its fields, by their first byte:
--
--   w              the part of the record that writes change
--   t              the part that deliveries change
--   =TENANT #N     a flow: its first messages that wait, see flows
--   o=TENANT       an owner: a tenant's messages in flight, see owners
--   q#N            owners of a stream whose handlers are quick, see quick
--   lLANE          the answer to the last call of a lane, see lane
--   16 digits      a message: its header and its body, see deliveries
--   aID            its deliveries so far, see deliveries
--   bID eID        a batch, and the message of its end, see batches
--   d              the default limits, see limits
--   f              tenants whose messages fail, see failing
--   24 characters  a delivery, by its receipt, see deliveries
--
-- K has the settings, counters of rare events, and positions of sources.
--
-- Needs    clock, keys
-- Gives    exists: whether there is a queue
--          answered: false; see answers
--          attempts, paused, idle, streams, limits: settings, as texts or false
--          n: the numbers of the record, by name, and its texts last, digest, roll and tenant
--          behind: by how many milliseconds the clock is behind the latest instant that a call saw, 0 for up to a second; see rewind
--          sets, gone: fields of hot to set and to remove
--          save(): stores all of it and the record; not a script's first write
--          whole(number): its text
--          renew_roll(): has all readers register again before they take messages
--          due_at(at): notes that something is due then
--          wake(most): wakes so many readers, or as many as sleep
--          broken() -> an error if a key of the queue is missing; before the first write. A key of
--          another type ends the script
local hot, active, backlog = prefix .. 'hot', prefix .. 'active', prefix .. 'backlog'
local settings = redis.call('HMGET', K, 'version', 'attempts', 'paused', 'idle', 'streams', 'limits')
local answered, exists, attempts, paused, idle, streams, limits = false, settings[1] == '3', settings[2], settings[3], settings[4], settings[5], settings[6]
local found = redis.call('HMGET', hot, 'w', 't', '')
if settings[1] and not exists then
  return redis.error_reply('VERSION ' .. settings[1])
elseif exists ~= (found[3] and true or false) or exists and (#(found[1] or '') ~= 40 or #(found[2] or '') < 128) or
  not exists and (redis.call('EXISTS', K) == 1 and redis.call('HLEN', K) > 1 or
    redis.call('EXISTS', active, backlog, prefix .. 'flight', prefix .. 'delayed', prefix .. 'dead', prefix .. 'dedupe') > 0) then
  return redis.error_reply('BROKEN a key is missing')
end
local instant = string.format('%d', now)
if limits then
  redis.call('ZCARD', prefix .. 'asleep') -- a key of another type ends the script here, not in save
end

local function whole(number)
  return string.format('%d', number)
end

local n = {written = 0, sleepers = 0, last = '0000000000000000', digest = '', virtual = 0, flags = 0, delivered = 0, acked = 0,
  flying = 0, busy = 0, capacity = 0, next = 0, least = 1e15, since = 0, others = 0, used = now, cancelled = 0, blocked = 0, removed = 0, roll = '',
  tenant = ''}
local sets, gone = {}, {}
if exists then
  n.written, n.sleepers, n.last, n.digest = struct.unpack('<ddc16c8', found[1])
  n.virtual, n.flags, n.delivered, n.acked, n.flying, n.busy, n.capacity, n.next, n.least, n.since, n.others, n.used, n.cancelled,
    n.blocked, n.removed, n.roll = struct.unpack('<dddddddddddddddc8', found[2])
  n.tenant = string.sub(found[2], 129)
  n.since, n.others = math.min(n.since, now), math.min(n.others, now) -- of a clock that was ahead
end

local function renew_roll()
  n.roll = string.format('%08X', micros % 4294967296)
end
local seen = n.used
local behind = seen > now + 1000 and seen - now or 0
n.used = math.max(seen, now)

local function due_at(at)
  n.next = math.min(n.next, at)
end

-- The list wake has a token for each reader to wake. It does not always exist, so it is not
-- declared: where a slot moves, a push may fail, and a reader checks again within a second.
local tokens = {}
local function wake(most)
  for _ = 1, math.min(most, n.sleepers, 64 - #tokens) do
    tokens[#tokens + 1], n.sleepers = '1', n.sleepers - 1
  end
end

-- Scripts that change a setting set its variable, and the digest to an empty text.
local function save()
  if n.digest == '' then
    n.digest = string.sub(redis.sha1hex((attempts or '') .. '\1' .. (idle or '') .. '\1' .. (streams or '')), 1, 8)
  end
  n.flags = (paused and 1 or 0) + ((streams or '') ~= '' and 4 or 0)
  if limits then
    local function has(kind)
      return string.find(limits, kind, 1, true)
    end
    n.flags = n.flags + (has('d') and 2 or 0) + (has('f') and 8 or 0) + (redis.call('ZCARD', prefix .. 'asleep') > 1 and 16 or 0) + (has('g') and 32 or 0)
  end
  n.least = n.blocked > 0 and tonumber(redis.call('ZRANGE', prefix .. 'blocked', '0', '0', 'WITHSCORES')[2]) or 1e15
  sets.w = struct.pack('<ddc16c8', n.written, n.sleepers, n.last, n.digest)
  sets.t = struct.pack('<dddddddddddddddc8', n.virtual, n.flags, n.delivered, n.acked, n.flying, n.busy, n.capacity, n.next, n.least,
    n.since, n.others, n.used, n.cancelled, n.blocked, n.removed, n.roll) .. n.tenant
  local fields, names = {}, {}
  for field, value in pairs(sets) do
    fields[#fields + 1], fields[#fields + 2] = field, value
  end
  for field in pairs(gone) do
    names[#names + 1] = not sets[field] and field or nil
  end
  if #names > 0 then
    redis.call('HDEL', hot, unpack(names))
  end
  redis.call('HSET', hot, unpack(fields))
  if #tokens > 0 then
    redis.pcall('LPUSH', prefix .. 'wake', unpack(tokens))
    redis.pcall('LTRIM', prefix .. 'wake', 0, 63)
    redis.pcall('PEXPIRE', prefix .. 'wake', 10000)
  end
end

local function broken()
  local missing = redis.call('LINDEX', prefix .. 'young', '0') ~= ''
  for name in string.gmatch(sorted_sets, '%a+') do
    missing = missing or not redis.call('ZSCORE', prefix .. name, '')
  end
  for name in string.gmatch(hashes, '%a+') do
    missing = missing or redis.call('HEXISTS', prefix .. name, '') == 0
  end
  return missing and redis.error_reply('BROKEN a key is missing') or nil
end
