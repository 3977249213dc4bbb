-- fragment wake: wakes readers that sleep
--
-- A read that finds nothing and goes to sleep is counted in the record, so a write that
-- wakes nobody pays nothing for it. The list wake has a token for each reader that is to
-- wake. It comes and goes, so it is not declared: where that is in the way of a slot that
-- moves, a reader finds out by itself within a second.
--
-- Needs    record
-- Beside   wake
-- Gives    wake(most): wakes so many readers, or as many as sleep
local function wake(most)
  local tokens = math.min(most, n.sleepers, 64)
  if tokens <= 0 then
    return
  end
  n.sleepers = n.sleepers - tokens
  local list = {}
  for i = 1, tokens do
    list[i] = '1'
  end
  redis.pcall('LPUSH', prefix .. 'wake', unpack(list))
  redis.pcall('LTRIM', prefix .. 'wake', 0, 63)
  redis.pcall('PEXPIRE', prefix .. 'wake', 10000)
end
