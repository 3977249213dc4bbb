-- scatter.read(K) {kind key most} -> {state, values...}
--
-- Tells what this server has of some keys, all at one moment. It writes nothing.
--
-- Needs    open
-- KEYS[1]  K
-- ARGV[1]  kind of the first key: number, list, set or scores; then in threes
-- ARGV[2]  key: the value's name
-- ARGV[3]  most: how many entries of a list are read, from the first on; how many
--          members of a set may be read
-- Reply    for each key a state and a list: 0 and what there is, which is a number's
--          text, a list's entries, a set's members, a sorted set's members each with
--          its score, or nothing; -1 and nothing if the key holds something else; the
--          number of the members and nothing if they are more than most
-- Cost     O(keys + members): one command for each key, and two for a set
-- Repeat   harmless: it only reads
local function wrong(answer)
  return type(answer) == 'table' and answer.err
end

local reply = {}
for i = 1, #ARGV, 3 do
  local kind, key, most, answer = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  if kind == 'number' then
    answer = redis.pcall('GET', key)
    if not wrong(answer) then
      answer = {answer or nil}
    end
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
  local state = 0
  if wrong(answer) then
    state, answer = -1, {}
  elseif type(answer) == 'number' then
    state, answer = answer, {}
  end
  reply[#reply + 1] = state
  reply[#reply + 1] = answer
end
return reply
