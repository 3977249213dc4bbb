-- fragment open: a tracker's keys and its record before the first write
--
-- Refuses a tracker of another version. A key of a wrong type ends the script here. The record
-- is whole if there is a hash and the set has its mark, the empty identifier. The mark
-- distinguishes an empty set from a lost one, for which the passes in the hash mean nothing.
--
-- Needs    nothing
-- Touches  K, ids
-- Gives    ids: a key
--          clock, now: the server's clock, and in milliseconds
--          whole: whether the record is; life, passes, cursor, started: its fields, '', '0',
--          '' and false if it is not
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
