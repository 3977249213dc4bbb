-- fragment open: a queue's keys and its state, before anything is written
--
-- Refuses what is not a queue of this version. The record is read first, so that
-- one of a wrong type ends the script here.
--
-- Needs  nothing
-- Gives  K, ready, waits, due, delayed, later, places, dead, dedupe, dedupes,
--        wake, req, req_before: keys; stream_key(i): that of stream i
--        streams, per, span: how many streams writers use, how many a tenant has,
--        how many may hold messages; 0 when there is no queue
--        group, cursor, paused: the consumer group, the stream whose turn is
--        next, whether reading is off
--        waiting: how many messages wait
--        limit(text): how many deliveries a message has, 0 for what is stored
--        expiry: after how long the queue may go, or false
--        now, now_us: the server's clock in milliseconds and in microseconds
--        count(field, by), field_of(fields, name): helpers
--        sound(): reads every key that indexes messages, so that one of a wrong
--        type ends the script before its first write
local K = KEYS[1]
local ready, waits, due = K .. ':ready', K .. ':waits', K .. ':due'
local delayed, later, places, dead = K .. ':delayed', K .. ':later', K .. ':places', K .. ':dead'
local dedupe, dedupes, wake = K .. ':dedupe', K .. ':dedupes', K .. ':wake'
local req, req_before = K .. ':req', K .. ':req_before'
local function stream_key(i)
  return K .. ':s:' .. i
end

local found = redis.call('HMGET', K, 'version', 'streams', 'per_tenant', 'span', 'group', 'cursor', 'paused', 'in', 'out',
  'attempts', 'expiry')
local streams, per, span = tonumber(found[2] or 0), tonumber(found[3] or 0), tonumber(found[4] or 0)
local group, cursor, paused = found[5], tonumber(found[6] or 0), found[7] == '1'
local waiting = tonumber(found[8] or 0) - tonumber(found[9] or 0)
if found[1] and found[1] ~= '1' then
  return redis.error_reply('QUEUEVERSION ' .. found[1])
elseif not found[1] and redis.call('EXISTS', K, ready, waits, due, later, places, dead) > 0 then
  return redis.error_reply('QUEUEBROKEN the version is missing')
end

local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2]
local now = math.floor(now_us / 1000)

local expiry = found[11]
local function limit(text)
  return text ~= '0' and tonumber(text) or tonumber(found[10] or 5)
end

local function count(field, by)
  if by ~= 0 then
    redis.call('HINCRBY', K, field, by)
  end
end

local function field_of(fields, name)
  for j = 1, #fields, 2 do
    if fields[j] == name then
      return fields[j + 1]
    end
  end
end

local function sound()
  redis.call('ZCARD', ready)
  redis.call('HLEN', waits)
  redis.call('ZCARD', due)
  redis.call('ZCARD', delayed)
  redis.call('XLEN', later)
  redis.call('HLEN', places)
  redis.call('XLEN', dead)
end
