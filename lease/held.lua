-- fragment held: whether somebody holds the lease
--
-- A release leaves all as it is and gives the key a TTL, which a lease that is held has not.
--
-- Needs  open
-- Gives  held: whether there is an owner that has not released and whose deadline has not come
--        metadata, waiters: as they are, empty when there are none
--        released, rsize: who released last, and the length of that, of 2 digits
local held, metadata, released, rsize, waiters = false, '', '', '00', ''
if found then
  local free = redis.call('PTTL', K) ~= -1
  if not free or string.byte(value, -1) == 59 then -- else nobody waits, and only the owner counts
    metadata, released, rsize, waiters = rest()
  end
  if free then
    released, rsize = owner, size
  else
    held = now < deadline
  end
end
