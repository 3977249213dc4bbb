-- fragment key_open: a shard's keys, the time, and what a value says
--
-- Refuses what is not a shard of this version, before anything is written. A
-- value is '0001700000000000 payload': its deadline in Unix milliseconds as 16
-- digits, a space, and what the caller stored. It is there while the clock shows
-- less than its deadline. Time is one moment throughout the script.
--
-- Needs  nothing
-- Gives  K, due: keys
--        fresh: whether the shard has no record yet
--        now, soon: the server's clock in milliseconds, down and up: what stays from
--        now on is counted from soon, so that it does not stay too short
--        value_key(name) -> the key of a value
--        deadline_of(key) -> the deadline of what is stored there; 0 for nothing,
--        nil for what is no value
--        left_of(deadline) -> how many milliseconds are left until it, less those
--        that have begun, but at least 1; 0 if it has come
--        stamp(ms) -> a time as 16 digits
local K = KEYS[1]
local due = K .. ':due'
local version = redis.call('HGET', K, 'version')
local fresh = not version
if version and version ~= '1' then
  return redis.error_reply('EXPIRYVERSION ' .. version)
elseif fresh and redis.call('EXISTS', K) == 1 then
  return redis.error_reply('EXPIRYBROKEN the version is missing')
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local soon = clock[1] * 1000 + math.ceil(clock[2] / 1000)

local function value_key(name)
  return K .. ':v:' .. name
end

local function deadline_of(key)
  local head = redis.pcall('GETRANGE', key, 0, 16)
  if head == '' then
    return 0
  end
  local digits = type(head) == 'string' and #head == 17 and string.match(head, '^(%d+) $')
  return digits and tonumber(digits) or nil
end

local function left_of(deadline)
  return deadline <= now and 0 or math.max(1, deadline - soon)
end

local function stamp(ms)
  return string.format('%016.0f', ms)
end
