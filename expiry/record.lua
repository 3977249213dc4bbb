-- fragment record: the version of a hash
--
-- Each hash repeats that of the shard, so that a write to a hash need not read the shard's.
--
-- Needs  nothing
-- Gives  layout: the version of a hash, which its record has behind its deadline
local layout = '4'
