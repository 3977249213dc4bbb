-- The Redis calls that the gem's add makes for one member.
local K = KEYS[1]
local pset, cset = K .. '/ick/{' .. K .. '}/pset', K .. '/ick/{' .. K .. '}/cset'
redis.call('GET', K)
redis.call('TYPE', K)
redis.call('TYPE', pset)
redis.call('TYPE', cset)
local before = redis.call('ZSCORE', pset, ARGV[2])
if not before or tonumber(ARGV[1]) < tonumber(before) then
  redis.call('ZADD', pset, ARGV[1], ARGV[2])
end
redis.call('SETNX', K, 'ick.v1')
return before and 0 or 1
