-- fleet.lookup(K) fleet own tag -> {outcome, ...}
--
-- Reads the record of a tag. A server answers only if it accepts writes at this moment: a
-- restarted server may have lost the newest records, and is fenced until an agent has
-- examined it. One that came back without its fence has another run id.
--
-- Needs    member
-- Touches  none, {*}
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  tag
-- Reply    {'record', its text}; {'none', the server's run id}; {'stranger',
--          identity} if this is another server than expected
-- Cost     O(1)
-- Repeat   harmless: nothing is written
redis.call('DEL', K .. ':none')
local found = redis.call('GET', K .. ':{' .. ARGV[3] .. '}')
if found then
  return {'record', found}
end
return {'none', string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')}
