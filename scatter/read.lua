-- scatter.read(K) from {kind key most} -> {next, state, values, state, values...}
--
-- Reads keys of this server, all at one moment. It stops after about 1 MiB, and another call
-- continues.
--
-- A set that changes meanwhile is returned with all members that it has from the first to the
-- last call. New entries push a list down, so its next part begins behind the last entry read.
--
-- Needs    open
-- Replica  may answer
-- KEYS[1]  K
-- ARGV[1]  from: '' for the beginning of the first key, or next of the last call
-- ARGV[2]  kind of the first key: number, list, set or scores; then in threes, for at most
--          1,000 keys
-- ARGV[3]  key: the value's name
-- ARGV[4]  most: how many entries of a list to read, without those of earlier calls; how many
--          members of a set may be read, all calls together
-- Reply    where the last key of the reply continues, '' if it is complete; for each key a
--          state and a list: 0 and a number's text, a list's entries, a set's members, a sorted
--          set's members with their scores, or nothing; -1 and nothing if the key has another
--          type; -2 and nothing if it was deleted since the last call; the number of members
--          and nothing if they are more than most
-- Cost     O(keys + members) of the reply, 1,000 keys and about 1 MiB and 16,000 members at
--          most: one command for each key, and for a set or a list one more for each 20
--          members or entries, or each large one
-- Repeat   harmless: it only reads
local room = 1048576
local goes_on = ''

-- How many values to read at once: one at first, more when they are small.
local step = 1

local function wrong(answer)
  return type(answer) == 'table' and answer.err
end

-- Counts texts that were read, and returns their bytes.
local function count(texts)
  local bytes = 0
  for i = 1, #texts do
    bytes = bytes + #texts[i]
  end
  room = room - bytes - 64 * #texts -- the overhead of each
  step = bytes < 8192 and math.min(20, 2 * step) or 1
  return bytes
end

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

-- Returns where the part behind the last entry read begins, or nil if the entry is gone or the
-- next call must continue the search.
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
      return all -- it is gone, or further down
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
      state = count(answer) > 512 and -1 or 0 -- too long for a number
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
