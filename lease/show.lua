-- lease.show(K) -> {held, token, fence, remaining, deadline, metadata}
--
-- Reads a lease.
--
-- Needs    open, held
-- Touches  K
-- KEYS[1]  K
-- ARGV     none
-- Reply    {1 or 0, token, fence, milliseconds until the deadline, the deadline in Unix
--          milliseconds, metadata}; the fence is that of the last acquisition, 0 if unknown;
--          the others are empty or 0 unless the lease is held
-- Cost     O(1)
-- Repeat   harmless: it only reads
if not held then
  return {0, '', found and fence or 0, 0, 0, ''}
end
return {1, owner, fence, deadline - now, deadline, metadata}
