-- fairqueue.sources(K) -> {source, position, ...}
--
-- Lists the sources of a queue and their positions.
--
-- Needs    record
-- Replica  may answer
-- KEYS[1]  K
-- ARGV     none
-- Reply    sources and positions in turn, in no order; {} without a queue
-- Cost     O(N) in the sources, at most 1,000
-- Repeat   harmless: it only reads
local all, fields = {}, exists and redis.call('HGETALL', K) or {}
for i = 1, #fields, 2 do
  local source = string.match(fields[i], '^at:(.*)$')
  if source then
    all[#all + 1] = source
    all[#all + 1] = fields[i + 1]
  end
end
return all
