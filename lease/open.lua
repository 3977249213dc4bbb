-- fragment open: what a lease's key holds, before anything is written
--
-- Refuses what is not a lease of this version, before the first write. Time is one moment
-- throughout the script.
--
-- Needs  nothing
-- Gives  now, now_us: the server's clock in milliseconds and in microseconds
--        stamp: the microseconds as text, which costs less than to print them
--        found: whether there is anything of a lease
--        fence, deadline: what it says, 0 when there is nothing
--        owner, metadata, released, waiters: the same, empty when there is nothing. The owner is
--        who acquired last, whether or not it still holds
--        keep: for how long what is left of a lease stays, in milliseconds
local keep = 60000

local value = redis.pcall('GET', K)
local found, fence, deadline = value, 0, 0
local owner, metadata, released, waiters = '', '', '', ''
if type(value) == 'table' then -- an error: it is no text
  local version = redis.pcall('HGET', K, 'version') -- of the first version, which was a hash
  if type(version) == 'string' then
    return redis.error_reply('VERSION ' .. version)
  end
  return value
elseif value then
  local f, d, o, m, r, rest = string.match(value, '^2 (%d+) (%d+) (%d+) (%d+) (%d+) ()')
  if not f then
    local version = string.match(value, '^(%d+) ')
    if version and version ~= '2' then
      return redis.error_reply('VERSION ' .. version)
    end
    return redis.error_reply('BROKEN the key holds no lease')
  end
  fence, deadline = tonumber(f), tonumber(d)
  owner = string.sub(value, rest, rest + o - 1)
  rest = rest + o
  metadata = string.sub(value, rest, rest + m - 1)
  rest = rest + m
  released, waiters = string.sub(value, rest, rest + r - 1), string.sub(value, rest + r)
end

local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2]
local now = math.floor(now_us / 1000)
local stamp = clock[1] .. string.sub('00000' .. clock[2], -6)
