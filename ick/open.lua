-- fragment open: the keys of an Ick, and its state before the first write
--
-- Refuses a broken Ick. It reads every key, so that one of a wrong type ends the script here.
--
-- The gem creates and deletes its sets, so an Ick waits while its slot moves: the key none
-- never exists.
--
-- Needs    nothing
-- Touches  K, pset, cset, folds, meta, wake, parked, fails, none
-- Gives    pset, cset, folds, meta, parked, fails, wake: keys
--          version, exists: whether there is an Ick
--          waiting, reserved, known, failing, resting: sizes of pset, cset, folds, fails and
--          parked
--          tokens: those of the newest reservations, the newest first, each between spaces
--          seq: the number of the newest, or 0
local pset, cset, folds = prefix .. 'pset', prefix .. 'cset', prefix .. 'folds'
local meta, wake = prefix .. 'meta', prefix .. 'wake'
local parked, fails = prefix .. 'parked', prefix .. 'fails'

local version = redis.call('GET', K)
local waiting, reserved = redis.call('ZCARD', pset), redis.call('ZCARD', cset)
local known, failing = redis.call('HLEN', folds), redis.call('HLEN', fails)
local resting = redis.call('ZCARD', parked)
local tokens = redis.call('HGET', meta, 'tokens') or ' '
local seq = tonumber(string.match(tokens, '^ (%d+)') or 0)
local exists = version == 'ick.v1'
if version and not string.find(version, '^ick%.') then
  return redis.error_reply('BROKEN the key of this name holds no Ick')
elseif version and not exists then
  return redis.error_reply('VERSION ' .. version)
elseif not version and waiting + reserved > 0 then
  return redis.error_reply('BROKEN the version key is missing')
end
