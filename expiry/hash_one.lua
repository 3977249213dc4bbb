-- fragment hash_one: the one hash that a write is about
--
-- It is looked at before anything is written.
--
-- Needs    hash_shard
-- Touches  h:ARGV[2], t:ARGV[2]
-- Gives    name: of the hash
--          h, t: keys of its values and of its deadlines
local name = ARGV[2]
local h, t = prefix .. 'h:' .. name, prefix .. 't:' .. name
redis.call('HLEN', h) -- what is something else ends the script here
redis.call('ZCARD', t)
