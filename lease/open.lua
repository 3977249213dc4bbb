-- fragment open: what a lease's key holds, before anything is written
--
-- Refuses what is not a lease of this version, before the first write. Time is one moment
-- throughout the script. Numbers stay texts of a fixed width, which compare as numbers do:
-- to read and print them would cost more than a command.
--
-- Needs  nothing
-- Gives  stamp, now: the server's clock, 16 digits of microseconds and 13 of milliseconds
--        value, found: the text of the lease, false when there is nothing of one
--        fence, deadline: as the clock; empty when there is nothing
--        owner, size: who acquired last, whether or not it still holds, and its length, of
--        2 digits
--        rest: returns the metadata, who released before, the length of that, and who waits
--        keep: for how long what is left of a lease stays, in milliseconds
local keep = 60000

local value = redis.pcall('GET', K)
local found, fence, deadline, owner, size = value, '', '', '', '00'
if type(value) == 'table' then -- an error: it is no text
  local version = redis.pcall('HGET', K, 'version') -- of the first version, which was a hash
  if type(version) == 'string' then
    return redis.error_reply('VERSION ' .. version)
  end
  return value
elseif value then
  if string.sub(value, 1, 2) ~= '2 ' or string.byte(value, 44) ~= 32 then
    local version = string.match(value, '^(%d+) ')
    if version and version ~= '2' then
      return redis.error_reply('VERSION ' .. version)
    end
    return redis.error_reply('BROKEN the key holds no lease')
  end
  fence, deadline, size = string.sub(value, 3, 18), string.sub(value, 20, 32), string.sub(value, 34, 35)
  owner = string.sub(value, 45, 44 + size)
end

local function rest()
  local m, r, at = string.sub(value, 37, 40), string.sub(value, 42, 43), 45 + size
  return string.sub(value, at, at + m - 1), string.sub(value, at + m, at + m + r - 1), r, string.sub(value, at + m + r)
end

local clock = redis.call('TIME')
local stamp = clock[1] .. string.sub('00000' .. clock[2], -6)
local now = string.sub(stamp, 1, 13)
