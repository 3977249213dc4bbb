-- fleet.beat(K) fleet own epoch count run -> {outcome, ...}
--
-- Writes a beat: a server that has it has all data that was written before. Neither its epoch
-- nor its count ever goes down. One that was restarted takes none: its data may be old.
--
-- Needs    member
-- Touches  beat, none
-- KEYS[1]  K
-- ARGV[1]  fleet: its name
-- ARGV[2]  own: the number of the partition that this is expected to be
-- ARGV[3]  epoch: of the partition
-- ARGV[4]  count: one more than the newest beat that the agent knows
-- ARGV[5]  run: the run id in which the server has the data of the partition
-- Reply    {'beat', epoch and count that are here now}; {'stranger', identity} if this is
--          another server than expected; {'restarted', run id} if it is in another run
-- Cost     O(1)
-- Repeat   harmless: the beat is there
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
if run ~= ARGV[5] then
  return {'restarted', run}
end
local epoch, count = string.match(redis.call('GET', K .. ':beat') or '', '^(%d+) (%d+)$')
epoch = math.max(tonumber(epoch or '0'), tonumber(ARGV[3]))
count = math.max(tonumber(count or '0'), tonumber(ARGV[4]))
local beat = string.format('%.0f %.0f', epoch, count)
redis.call('DEL', K .. ':none') -- makes a full server accept it and what follows
redis.call('SET', K .. ':beat', beat)
return {'beat', beat}
