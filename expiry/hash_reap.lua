-- expiry.hash_reap(K) budget which name -> {reaped, full}
--
-- Removes expired fields, from the hash that waits longest to the next, until the
-- budget is used up; a hash that has nothing to remove costs one, too. The index
-- holds a lower bound of a hash's earliest deadline and is corrected here. What is
-- expired is looked up and removed in one go, so a field that was written again is
-- never hit.
--
-- It begins with a write that a full server does not refuse. A hash of a wrong
-- type leaves the index and does not keep the others.
--
-- KEYS[1]  K
-- ARGV[1]  budget: how many fields and hashes at most, up to 1,000
-- ARGV[2]  which: 'due' for the hashes of the index in turn, 'any' for a random one
--          of them, 'one' for the one that is named
-- ARGV[3]  name: of the hash, or ''
-- Reply    how many fields were removed, and 1 if the budget is used up, else 0
-- Cost     O(budget * log N)
-- Repeat   harmless: what is gone is not found again
local left, reaped, names = tonumber(ARGV[1]), 0, {ARGV[3]}
if ARGV[2] == 'due' then
  names = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, left)
elseif ARGV[2] == 'any' then
  names = {redis.call('ZRANDMEMBER', due) or nil}
end

local function sound(of)
  return type(redis.pcall('HLEN', K .. ':h:' .. of)) == 'number' and type(redis.pcall('ZCARD', K .. ':t:' .. of)) == 'number'
end

redis.call('HDEL', K, '')
for _, of in ipairs(names) do
  local n = 0
  if sound(of) then
    n = sweep(of, left)
    rescore(of)
  else
    redis.call('ZREM', due, of)
  end
  reaped, left = reaped + n, left - math.max(1, n)
  if left <= 0 then
    break
  end
end
return {reaped, left <= 0 and 1 or 0}
