-- fragment open: a lease's value before the first write
--
-- Refuses a lease of another version. Time is one moment in the whole script. Numbers stay
-- texts of a fixed width, which compare as numbers do: parsing and printing them costs more
-- than a command.
--
-- Needs  nothing
-- Gives  stamp, now: the server's clock, 16 digits of microseconds and 13 of milliseconds
--        value, found: the stored text, false without one
--        fence, deadline: as the clock; empty without a lease
--        moved: whether the clock was set back since the last write, so that value and deadline
--        are not those that are stored
--        owner, size: the token of the last acquisition, released or not, and its length in 2
--        digits
--        rest: returns the metadata, the token of the release before, its length, the waiters
--        keep: how long a released or abandoned lease stays, in milliseconds
local keep = 60000

local value = redis.pcall('GET', K)
local found, fence, deadline, owner, size = value, '', '', '', '00'
if type(value) == 'table' then -- an error: another type
  local version = redis.pcall('HGET', K, 'version') -- of the first version, which was a hash
  if type(version) == 'string' then
    return redis.error_reply('VERSION ' .. version)
  end
  return value
elseif value then
  if string.sub(value, 1, 2) ~= '3 ' or string.byte(value, 58) ~= 32 then
    local version = string.match(value, '^(%d+) ')
    if version and version ~= '3' then
      return redis.error_reply('VERSION ' .. version)
    end
    return redis.error_reply('BROKEN the key holds no lease')
  end
  fence, deadline, size = string.sub(value, 3, 18), string.sub(value, 20, 32), string.sub(value, 48, 49)
  owner = string.sub(value, 59, 58 + size)
end

local function rest()
  local m, r, at = string.sub(value, 51, 54), string.sub(value, 56, 57), 59 + size
  return string.sub(value, at, at + m - 1), string.sub(value, at + m, at + m + r - 1), r, string.sub(value, at + m + r)
end

local clock = redis.call('TIME')
local stamp = clock[1] .. string.sub('00000' .. clock[2], -6)
local now = string.sub(stamp, 1, 13)

-- A clock that was ahead wrote the deadline. The same time is left from now on: a holder that
-- lives relies on no later end, and no caller waits for the time of that clock.
local moved = found and now < string.sub(value, 34, 46)
if moved then
  deadline = string.format('%.0f', now + deadline - string.sub(value, 34, 46))
  value = string.sub(value, 1, 19) .. deadline .. ' ' .. now .. string.sub(value, 47)
end
