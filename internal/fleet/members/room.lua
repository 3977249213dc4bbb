-- fragment room: whether this partition takes another tag
--
-- It does not if it has max_tags, or has filled max_fill of its memory: its tags use the
-- rest to grow.
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
