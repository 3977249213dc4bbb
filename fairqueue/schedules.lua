-- fairqueue.schedules(K) which ... -> {...} or nil
--
-- Shows schedules. The state of a schedule is one text, which only the library reads and makes; to
-- change it is to replace it, if it is still the same.
--
-- Needs    record
-- Touches  schedules, ticks
-- KEYS[1]  K
-- ARGV     'due' for up to 20 whose tick is due; 'names' for the names of all; or 'of' and up to
--          20 names
-- Reply    nil without a queue, else {the server's clock; name, when its next tick is looked for,
--          state, definition ...}, without those that do not exist. It ends early after a
--          mebibyte. For 'names': {the clock; name ...}
-- Cost     O(log N) a schedule
-- Repeat   harmless: it only reads
if not exists then
  return false
end
local schedules, ticks, which = prefix .. 'schedules', prefix .. 'ticks', ARGV[1]
local names, reply, room = {unpack(ARGV, 2)}, {now}, 1048576
if which == 'due' then
  names = redis.call('ZRANGEBYSCORE', ticks, '-inf', now, 'LIMIT', '0', '20')
elseif which == 'names' then
  names = redis.call('ZRANGE', ticks, '0', '-1') -- at most 1,000
  for i, name in ipairs(names) do
    reply[#reply + 1] = name ~= '' and name or nil
  end
  return reply
end
for _, name in ipairs(names) do
  local due, found = redis.call('ZSCORE', ticks, name), redis.call('HMGET', schedules, 's' .. name, 'd' .. name)
  if due and found[1] and found[2] and room > 0 then
    for _, text in ipairs({name, due, found[1], found[2]}) do
      reply[#reply + 1] = text
    end
    room = room - #found[2]
  end
end
return reply
