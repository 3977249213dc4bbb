-- scatter.read(K) from {kind key most} -> {next, state, values, state, values...}
--
-- Tells what this server has of some keys, all at one moment. It writes nothing. When
-- there is about 1 MiB to send it stops, and another call goes on.
--
-- A set that changes meanwhile is read with all that is in it from the first to the
-- last call. A list is pushed down by what is put in front of it, so its next part
-- begins behind the entry that was read last.
--
-- Needs    open
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  from: '' for the beginning of the first key; what the call before answered
-- ARGV[2]  kind of the first key: number, list, set or scores; then in threes, for at
--          most 1,000 keys
-- ARGV[3]  key: the value's name
-- ARGV[4]  most: how many entries of a list are read, those of the calls before left
--          out; how many members of a set may be read, all calls together
-- Reply    where the last key that is answered goes on, '' if nothing is left of it;
--          for each key that is answered a state and a list: 0 and what there is, which
--          is a number's text, a list's entries, a set's members, a sorted set's members
--          each with its score, or nothing; -1 and nothing if the key holds something
--          else; -2 and nothing if it is gone since the call before; the number of the
--          members and nothing if they are more than most
-- Cost     O(keys + members) of what is sent, 1,000 keys and about 1 MiB and 16,000
--          members at most: one command for each key, and for a set or a list one more
--          for each 20 members or entries, or each one of more than some kB
-- Repeat   harmless: it only reads
local room = 1048576
local goes_on = ''

-- How many values are read at once, before anybody knows how large they are: one at
-- first, and more when they are small.
local step = 1

local function wrong(answer)
  return type(answer) == 'table' and answer.err
end

-- Counts what was read, and returns how many bytes it has.
local function count(texts)
  local bytes = 0
  for i = 1, #texts do
    bytes = bytes + #texts[i]
  end
  room = room - bytes - 64 * #texts -- each costs a bit by itself
  step = bytes < 8192 and math.min(20, 2 * step) or 1
  return bytes
end

-- Puts texts behind others.
local function append(all, texts)
  local n = #all
  for i = 1, #texts do
    all[n + i] = texts[i]
  end
  count(texts)
end

local function members(kind, key, from)
  local all, cursor = {}, from == '' and '0' or from
  repeat
    local page = kind == 'set' and redis.call('SSCAN', key, cursor, 'COUNT', step)
      or redis.call('ZSCAN', key, cursor, 'COUNT', step)
    cursor = page[1]
    append(all, page[2])
  until cursor == '0' or room <= 0
  goes_on = cursor == '0' and '' or cursor
  return all
end

-- Where the part behind the entry begins that was the last one before, if it is there.
-- What one call does not look through, the next one does.
local function behind(key, position, digest)
  local first = position - 1
  repeat
    local page = redis.call('LRANGE', key, first, first + step - 1)
    for i = 1, #page do
      if redis.sha1hex(page[i]) == digest then
        return first + i
      end
    end
    first = first + #page
    count(page)
    if room <= 0 then
      goes_on = string.format('%.0f:%s', first + 1, digest)
      return nil
    end
  until #page == 0
  return nil
end

local function entries(key, most, from)
  local all, first = {}, 0
  if from ~= '' then
    local position, digest = string.match(from, '^(%d+):(%x+)$')
    first = behind(key, tonumber(position), digest)
    if not first then
      return all -- it has left the list, or is further down
    end
  end
  while #all < most do
    if room <= 0 then
      goes_on = string.format('%.0f:%s', first + #all, redis.sha1hex(all[#all]))
      break
    end
    local asked = math.min(step, most - #all)
    local page = redis.pcall('LRANGE', key, first + #all, first + #all + asked - 1)
    if wrong(page) then
      return page
    end
    append(all, page)
    if #page < asked then
      break
    end
  end
  return all
end

local reply = {}
for i = 2, #ARGV, 3 do
  local kind, key, most, answer = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local from, state = i == 2 and ARGV[1] or '', 0
  if from ~= '' and redis.call('EXISTS', key) == 0 then
    answer, state = {}, -2
  elseif kind == 'number' then
    answer = redis.pcall('GETRANGE', key, '0', '512')
    if not wrong(answer) then
      answer = answer ~= '' and {answer} or {}
      state = count(answer) > 512 and -1 or 0 -- no number is as long
    end
  elseif kind == 'list' then
    answer = entries(key, most, from)
  else
    answer = kind == 'set' and redis.pcall('SCARD', key) or redis.pcall('ZCARD', key)
    if not wrong(answer) then
      if answer > most then
        state = answer
      else
        answer = members(kind, key, from)
      end
    end
  end
  if wrong(answer) then
    state = -1
  end
  reply[#reply + 1] = state
  reply[#reply + 1] = state == 0 and answer or {}
  if room <= 0 then
    break
  end
end
table.insert(reply, 1, goes_on)
return reply
