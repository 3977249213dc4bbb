-- scatter.read(K) base {kind key most} -> {value...}
--
-- Tells what this server has of some keys, all at one moment. It writes nothing.
--
-- KEYS[1]  K, which is empty
-- ARGV[1]  base: what the side keys begin with
-- ARGV[2]  kind of the first key: number, list, set or scores; then in threes
-- ARGV[3]  key
-- ARGV[4]  most: how many entries of a list are read, from the first on; how many
--          members of a set may be read
-- Reply    a value for each key: a number's text, or nil; a list's entries; a set's
--          members; a sorted set's members, each with its score; 0 if the key holds
--          something else; the number of the members if they are more than most
-- Cost     O(keys + members): one command for each key, and two for a set
-- Repeat   harmless: it only reads
local function wrong(answer)
  return type(answer) == 'table' and answer.err
end

local function value(kind, key, most)
  local answer
  if kind == 'number' then
    answer = redis.pcall('GET', key)
  elseif kind == 'list' then
    answer = redis.pcall('LRANGE', key, '0', most - 1)
  elseif kind == 'set' then
    answer = redis.pcall('SCARD', key)
    if not wrong(answer) and answer <= most then
      answer = redis.pcall('SMEMBERS', key)
    end
  else
    answer = redis.pcall('ZCARD', key)
    if not wrong(answer) and answer <= most then
      answer = redis.pcall('ZRANGE', key, '0', '-1', 'WITHSCORES')
    end
  end
  if wrong(answer) then
    return 0
  end
  return answer
end

local reply = {}
for i = 2, #ARGV, 3 do
  reply[#reply + 1] = value(ARGV[i], K .. ARGV[i + 1], tonumber(ARGV[i + 2]))
end
return reply
