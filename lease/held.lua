-- fragment held: whether the lease is held
--
-- A release keeps the value and gives the key a TTL, which a held lease does not have.
--
-- Needs  open
-- Gives  held: whether there is an owner that has not released before its deadline
--        metadata, waiters: as stored, or empty
--        released, rsize: the token of the last release, and its length in 2 digits
local held, metadata, released, rsize, waiters = false, '', '', '00', ''
if found then
  local free = redis.call('PTTL', K) ~= -1
  if not free or string.byte(value, -1) == 59 then -- otherwise there are no waiters, and only the owner matters
    metadata, released, rsize, waiters = rest()
  end
  if free then
    released, rsize = owner, size
  else
    held = now < deadline
  end
end
