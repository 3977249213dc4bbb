-- fragment room: whether this partition takes another tag
--
-- A full server takes none; neither does one that has used up what may be filled:
-- the rest is for the tags it has, to grow.
--
-- Needs    nothing
-- Touches  tags
-- Gives    full: a function that reports whether there is no room, from how many
--          tags there may be ('0' for no limit) and the part of maxmemory that may
--          be filled, in percent
local function full(most, fill)
  if most ~= '0' and tonumber(redis.call('GET', K .. ':tags') or '0') >= tonumber(most) then
    return true
  end
  local memory = redis.call('INFO', 'memory')
  local limit = tonumber(string.match(memory, 'maxmemory:(%d+)') or '0')
  local used = tonumber(string.match(memory, 'used_memory:(%d+)') or '0')
  return limit > 0 and used * 100 >= limit * tonumber(fill)
end
