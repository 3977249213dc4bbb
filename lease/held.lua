-- fragment held: whether somebody holds the lease
--
-- A release leaves all as it is and gives the key a TTL, which a lease that is held has not.
--
-- Needs  open
-- Gives  held: whether there is an owner that has not released and whose deadline has not come
--        released: brought up to date: who released last
local held = false
if found then
  if redis.call('PTTL', K) == -1 then
    held = now < deadline
  else
    released = owner
  end
end
