-- fragment open: a queue's state, before anything is written
--
-- Refuses what is not a queue of this version. The record is read first, so that
-- one of a wrong type ends the script here.
--
-- Needs    version
-- Gives    stream_key(i): the key of stream i
--          streams, per, span: how many streams writers use, how many a tenant has,
--          how many may hold messages; 0 when there is no queue
--          group, cursor, paused: the consumer group, the stream whose turn is
--          next, whether reading is off
--          counted_in, counted_out: how many messages came to wait, and went
--          mortal: whether a message ever had a deadline
--          limit(text): how many deliveries a message has, 0 for what is stored
--          expiry: after how long the queue may go, or false
--          clock, now: the server's clock as TIME tells it, and in milliseconds
--          count(field, by), field_of(fields, name): helpers
--          in_flight(): how many messages are, by what was counted
--          sound(): reads every key that indexes messages, so that one of a wrong
--          type ends the script before its first write
local function stream_key(i)
  return K .. ':s:' .. i
end

local found = redis.call('HMGET', K, 'version', 'streams', 'per_tenant', 'span', 'group', 'cursor', 'in', 'out', 'paused',
  'attempts', 'expiry', 'mortal')
local streams, per, span = tonumber(found[2] or 0), tonumber(found[3] or 0), tonumber(found[4] or 0)
local group, cursor, paused = found[5], tonumber(found[6] or 0), found[9] == '1'
local counted_in, counted_out = tonumber(found[7] or 0), tonumber(found[8] or 0)
local expiry, mortal = found[11], found[12]
local no = refused(found[1])
if no then
  return no
end

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function limit(text)
  return text ~= '0' and tonumber(text) or tonumber(found[10] or 5)
end

local function count(field, by)
  if by ~= 0 then
    redis.call('HINCRBY', K, field, by)
  end
end

local function in_flight()
  local n = redis.call('HMGET', K, 'delivered', 'acked', 'nacked', 'unread', 'reclaimed', 'recalled')
  local flying = tonumber(n[1] or 0)
  for j = 2, 6 do
    flying = flying - tonumber(n[j] or 0)
  end
  return flying
end

local function field_of(fields, name)
  for j = 1, #fields, 2 do
    if fields[j] == name then
      return fields[j + 1]
    end
  end
end

local function sound()
  redis.call('STRLEN', K .. ':waits')
  redis.call('ZCARD', K .. ':due')
  redis.call('ZCARD', K .. ':delayed')
  redis.call('XLEN', K .. ':later')
  redis.call('HLEN', K .. ':places')
  redis.call('XLEN', K .. ':dead')
end
