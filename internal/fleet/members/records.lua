-- fleet.records(K) fleet own {tag} -> {outcome, ...}
--
-- Reads the records of tags. A server answers only if it accepts writes at this moment, and
-- says in which run it is and whether it went back in time: the caller compares the run with
-- the map's.
--
-- Needs    member
-- Touches  none, restored, {*}
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  tag, and so on
-- Reply    {'records', the server's run id, the epoch of its restoration or '', and the
--          record of each tag or ''}; {'stranger', identity} if this is another server
--          than expected
-- Cost     O(tags)
-- Repeat   harmless: nothing is written
redis.call('DEL', K .. ':none')
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local reply = {'records', run, redis.call('HGET', K .. ':restored', 'epoch') or ''}
for i = 3, #ARGV do
  reply[i + 1] = redis.call('GET', K .. ':{' .. ARGV[i] .. '}') or ''
end
return reply
