-- scatter.done(K) base key number -> 1 or 0
--
-- Removes a parcel that has been put down.
--
-- KEYS[1]  K, which is empty
-- ARGV[1]  base: what the side keys begin with
-- ARGV[2]  key
-- ARGV[3]  number: that of the parcel; a later one stays
-- Reply    1 if it was here, else 0
-- Cost     O(1)
-- Repeat   harmless: the second run finds nothing, or a later parcel
local out = base .. ':out'
local note = redis.call('HGET', out, ARGV[2])
if not note or string.match(note, '^%d+') ~= ARGV[3] then
  return 0
end
redis.call('UNLINK', base .. ':parcel:' .. ARGV[2])
return redis.call('HDEL', out, ARGV[2])
