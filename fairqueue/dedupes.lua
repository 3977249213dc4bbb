-- fragment dedupes: dedupe ids of recent writes
--
-- A dedupe id counts for a while after its write. A write forgets up to twice as many expired ids as it adds; upkeep
-- forgets the rest.
--
-- Needs    clock
-- Gives    dedupe: the key of the hash from dedupe id to message
--          dedupes: the key of the sorted set with the ends of their windows
--          forget_dedupes(most) -> whether there may be more: forgets dedupe ids whose window has passed
local dedupe, dedupes = prefix .. 'dedupe', prefix .. 'dedupes'

local function forget_dedupes(most)
  local old = redis.call('ZRANGEBYSCORE', dedupes, '-inf', now, 'LIMIT', '0', most)
  if #old > 0 then
    redis.call('ZREM', dedupes, unpack(old))
    redis.call('HDEL', dedupe, unpack(old))
  end
  return #old == most
end
