-- fragment open: a tracker's keys and its record, before anything is written
--
-- Refuses what is not a tracker of this version. A key of a wrong type ends the
-- script here, before its first write. The record is whole when the hash is
-- there and the set has its mark, the empty identifier. The mark tells a set that
-- has become empty from one that was lost: then what the hash says of passes is
-- not true any more.
--
-- Needs    nothing
-- Touches  K, ids
-- Gives    ids: a key
--          clock, now: the server's clock, and in milliseconds
--          whole: whether the record is; life, passes, cursor, started: what it says,
--          '', '0', '' and false when it is not
--          marked: whether the set has its mark
local ids = prefix .. 'ids'

local found = redis.call('HMGET', K, 'version', 'life', 'passes', 'cursor', 'pass_started_ms')
if found[1] and found[1] ~= '1' then
  return redis.error_reply('VERSION ' .. found[1])
elseif not found[1] and redis.call('EXISTS', K) == 1 then
  return redis.error_reply('BROKEN the version is missing')
end
local marked = redis.call('ZSCORE', ids, '')
local whole = found[1] and found[2] and marked
local life, passes, cursor, started = '', '0', '', false
if whole then
  life, passes, cursor, started = found[2] or '', found[3] or '0', found[4] or '', found[5]
end

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
