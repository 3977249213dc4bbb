-- fairqueue.shape(K) -> {streams, per} or nil
--
-- Tells which streams a tenant has: by how many writers use, and how many of
-- them a tenant has.
--
-- KEYS[1]  K
-- ARGV     none
-- Reply    {streams, per}, or nil without a queue
-- Cost     O(1)
-- Repeat   harmless: it writes nothing
if streams == 0 then
  return false
end
return {streams, per}
