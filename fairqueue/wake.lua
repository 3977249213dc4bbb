-- fragment wake: wakes readers that sleep
--
-- The record counts the readers that sleep, so a write that wakes nobody pays nothing. The list
-- wake has a token for each reader to wake. It does not always exist, so it is not declared:
-- where a slot moves, a push may fail, and a reader checks again within a second.
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
