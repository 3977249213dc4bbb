-- directory.confirm(K) epoch have -> {epoch[, form, text...]}
--
-- Reports whether the map with that epoch is the present one. A server answers only if
-- it accepts writes at this moment: a replica refuses the first command, and so does a
-- master with min-replicas-to-write that has lost its replicas: it may have been
-- replaced.
--
-- Touches  K, changes, none
-- KEYS[1]  K
-- ARGV[1]  epoch: of the map that the caller uses, 0 for none
-- ARGV[2]  have: the epoch of the newest map that it has, 0 for none
-- Reply    {epoch} if the caller uses it, or has it; {epoch, 'changes', change...}
--          from the map that it has; {epoch, 'map', map}; {0} if there is no map
-- Cost     O(1) if the caller has it; else the bytes that are sent
-- Repeat   harmless: nothing is written
redis.call('DEL', K .. ':none')
local epoch = redis.call('HGET', K, 'epoch')
if not epoch then
  return {0}
end
if epoch == ARGV[1] or epoch == ARGV[2] then
  return {tonumber(epoch)}
end
if ARGV[2] ~= '0' then
  local changes, size = redis.call('ZRANGEBYSCORE', K .. ':changes', ARGV[2], '+inf'), 0
  for _, change in ipairs(changes) do
    size = size + #change
  end
  if size > 0 and size < redis.call('HSTRLEN', K, 'map') then
    return {tonumber(epoch), 'changes', unpack(changes)}
  end
end
return {tonumber(epoch), 'map', redis.call('HGET', K, 'map')}
