-- scatter.read(K) base servers {server} {kind key most} -> {about, marks, value...}
--
-- Tells what this server has of some keys, all at one moment, and what is to be known
-- about them: in which epoch a key is, and how far a server is with it that is being
-- left. It writes nothing.
--
-- KEYS[1]  K, which is empty
-- ARGV[1]  base: what the side keys begin with
-- ARGV[2]  servers: how many names of servers follow
-- ARGV[3]  server, and so on: the name of each server of the group; then in threes
--          kind: number, list, set or scores
--          key
--          most: how many entries of a list are read, from the first on; how many
--          members of a set may be read
-- Reply    about, marks, and a value for each key. About is {number of the last fold of
--          this server that has ended, how often it has forgotten what it took in one
--          of another server, number of the fold of this server that is under way},
--          each nil for none, followed by a server and the number of its fold for
--          each of which this one has taken something. A mark is {position of the key,
--          from 1 on, what, more}: 'epoch', number, if it has one; 'taken', number
--          of the last parcel that was taken from the key here; 'parcel', value, of
--          the one on its way; 'applied', server, number of the last parcel from there
--          put down here. A value is a number's text, or nil; a list's entries; a
--          set's members; a sorted set's members, each with its score; 0 if the key
--          holds something else; the number of the members if they are more than most
-- Cost     O(servers + keys + members); where no key was reset and no server is being
--          left, one command for each key, and two for a set
-- Repeat   harmless: it only reads
local epochs, taken, out = base .. ':epochs', base .. ':taken', base .. ':out'
local servers = tonumber(ARGV[2])
local about = redis.call('HMGET', meta, 'ended', 'parted', 'fold')

local sides = {}
sides[1], sides[2], sides[3] = epochs, taken, out
for i = 1, servers do
  sides[3 + i] = base .. ':applied:' .. ARGV[2 + i]
end
local plain = redis.call('EXISTS', unpack(sides)) == 0
local leaving = {}
if not plain then
  for i = 1, servers do
    local fold = redis.call('HGET', base .. ':applied:' .. ARGV[2 + i], '')
    if fold then
      leaving[#leaving + 1] = ARGV[2 + i]
      about[#about + 1], about[#about + 2] = ARGV[2 + i], fold
    end
  end
end

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

local marks, reply = {}, {}
reply[1], reply[2] = about, marks
local position = 0
for i = 3 + servers, #ARGV, 3 do
  local kind, key, most = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  position = position + 1
  reply[position + 2] = value(kind, K .. key, most)
  if not plain then
    local epoch, number = redis.call('HGET', epochs, key), redis.call('HGET', taken, key)
    if epoch then
      marks[#marks + 1] = {position, 'epoch', epoch}
    end
    if number then
      marks[#marks + 1] = {position, 'taken', number}
    end
    if redis.call('HEXISTS', out, key) == 1 then
      marks[#marks + 1] = {position, 'parcel', value(kind, base .. ':parcel:' .. key, most)}
    end
    for _, server in ipairs(leaving) do
      local last = redis.call('HGET', base .. ':applied:' .. server, key)
      if last then
        marks[#marks + 1] = {position, 'applied', server, last}
      end
    end
  end
end
return reply
