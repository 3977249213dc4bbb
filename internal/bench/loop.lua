-- An exchange as a loop over the members, without tokens: commit ARGV[2..],
-- then fold until ARGV[1] are reserved.
local K = KEYS[1]
local pset, cset = K .. '/ick/{' .. K .. '}/pset', K .. '/ick/{' .. K .. '}/cset'
local n = tonumber(ARGV[1])
for i = 2, #ARGV do
  redis.call('ZREM', cset, ARGV[i])
end
local size = redis.call('ZCARD', cset)
while size < n do
  local first = redis.call('ZRANGE', pset, 0, 0, 'WITHSCORES')
  if not first[1] then
    break
  end
  redis.call('ZREM', pset, first[1])
  local before = redis.call('ZSCORE', cset, first[1])
  if not before then
    size = size + 1
  end
  if not before or tonumber(first[2]) < tonumber(before) then
    redis.call('ZADD', cset, first[2], first[1])
  end
end
return redis.call('ZRANGE', cset, 0, n - 1, 'WITHSCORES')
