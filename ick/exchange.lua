-- ick.exchange(K) token n first settle backwash nonce [member ...] -> {...}
--
-- Commits, then reserves; either part may be empty.
--
-- The commit removes members from the consumer set, but only those that were not folded into
-- it again since the reservation of the token: such a member may have changed after the
-- consumer read it. The hash folds has for each member the number of the reservation that last
-- folded it. A member without a number counts as newer than any token. Under a token that is
-- none of this Ick's newest, nothing is removed.
--
-- The reserve moves the oldest marks from the producer set into the consumer set until that
-- has n, and replies with its oldest n. The next reserve returns them again unless they are
-- committed. A reservation that moves something has the next number, and the nonce in its
-- token.
--
-- Needs    open, token, lane
-- KEYS[1]  K
-- ARGV[1]  token: of the reservation of the members, '' without members
-- ARGV[2]  n: how many the consumer set should have; 0 reserves nothing
-- ARGV[3]  first: the rank of the first entry of the reply; a page has 1,000 or 1 MiB
-- ARGV[4]  settle: marks younger than this many microseconds stay; 0 for none
-- ARGV[5]  backwash: '1' if older marks replace reserved ones
-- ARGV[6]  nonce: 8 to 16 random letters and digits, '' if n is 0
-- ARGV     members to commit, at most 1,000 and about 1 MiB
-- Reply    {token or '' before the first reservation, the server's clock in microseconds,
--          microseconds until the next mark is due or -1, 1 if the consumer set is not filled
--          yet and the call must be repeated or 2 if there is another page, committed, kept,
--          {member, score, ...}}
-- Cost     O(log N) a member; at most 1,000 are committed, moved and returned
-- Repeat   harmless: the lane keeps the result of the commit, and a reserve returns the same
--          members until they are committed
local n, first, settle = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local backwash, nonce = ARGV[5] == '1', ARGV[6]
local page = 1000

if not string.find(table.concat(ARGV, ' ', 2, 4), '^%d+ %d+ %d+$') or #ARGV > 6 + page
  or n > 0 and not (string.find(nonce, '^%w+$') and #nonce >= 8 and #nonce <= 16) then
  return redis.error_reply('ERR invalid arguments of a reservation')
end
if not exists then
  return {'', '0', -1, 0, 0, 0, {}}
end

local clock = redis.call('TIME')
local now = clock[1] * 1e6 + clock[2]

-- tonumber does not parse Redis's infinities.
local function score_of(text)
  return tonumber(text) or (text == 'inf' and math.huge) or -math.huge
end

-- A full server accepts this first write, and then the others.
local function begin()
  redis.call('HDEL', meta, '')
end

local function count(field, by)
  if by ~= 0 then
    redis.pcall('HINCRBY', meta, field, by)
  end
end

local function commit(members)
  local going, kept = members, 0
  if covered ~= seq or known ~= reserved or failing > 0 then
    going = {}
    local scores = redis.call('ZMSCORE', cset, unpack(members))
    for i, number in ipairs(redis.call('HMGET', folds, unpack(members))) do
      if scores[i] and number and tonumber(number) <= covered then
        going[#going + 1] = members[i]
      elseif scores[i] then
        kept = kept + 1
      end
    end
  end
  if #going == 0 then
    return 0, kept
  end
  local committed = redis.call('ZREM', cset, unpack(going))
  known = known - redis.call('HDEL', folds, unpack(going))
  if failing > 0 then
    redis.call('HDEL', fails, unpack(going))
    resting = resting - redis.call('ZREM', parked, unpack(going))
  end
  return committed, kept
end

local committed, kept = 0, 0
if #ARGV > 6 then
  if answered then
    committed, kept = string.match(answered, '(%d+) (%d+)')
    committed, kept = tonumber(committed), tonumber(kept)
  else
    begin()
    committed, kept = commit({unpack(ARGV, 7)})
    reserved = reserved - committed
    answer(committed .. ' ' .. kept)
    count('committed', committed)
    count('kept', kept)
  end
end

if n == 0 then
  return {'', string.format('%.0f', now), -1, 0, committed, kept, {}}
end

-- Without a token, all reservations are lost, and the numbers in folds mean nothing.
if seq == 0 then
  known = 0
end

-- The first write of a reservation draws its number. The newest tokens are kept in 512 bytes,
-- which are at least 15.
local number
local function draw()
  if not number then
    begin()
    if seq == 0 then
      redis.call('UNLINK', folds)
    end
    number = string.format('%.0f', seq + 1)
    tokens = ' ' .. number .. '-' .. nonce .. string.sub(tokens, 1, 512)
    redis.call('HSET', meta, 'tokens', tokens)
  end
end

-- Parked members that are due return to the producer set. The counter left is the number of
-- members that left it; with those in it, it gives the number of new members.
local moved, returned = 0, 0
if resting > 0 then
  local due = redis.call('ZRANGEBYSCORE', parked, '-inf', now / 1000, 'LIMIT', 0, 100)
  for _, member in ipairs(due) do
    draw()
    local score = string.match(redis.call('HGET', fails, member) or '0 0', '^%d+ (%S+)')
    redis.call('ZREM', parked, member)
    returned = returned + redis.call('ZADD', pset, 'LT', score, member)
  end
  waiting, resting = waiting + returned, resting - #due
  count('retried', #due)
end

local horizon = '+inf'
if settle > 0 then
  horizon = string.format('%.6f', (now - settle) / 1e6)
end

local function fold(popped)
  local marks, numbers = {}, {}
  for i = 1, #popped, 2 do
    marks[i], marks[i + 1] = popped[i + 1], popped[i]
    numbers[i], numbers[i + 1] = popped[i], number
  end
  reserved = reserved + redis.call('ZADD', cset, 'LT', unpack(marks))
  known = known + redis.call('HSET', folds, unpack(numbers))
  moved = moved + #popped / 2
end

local budget, due = page, waiting
if settle > 0 then
  due = redis.call('ZCOUNT', pset, '-inf', horizon)
end
while reserved < n and due > 0 and budget > 0 do
  draw()
  local take = math.min(n - reserved, due, budget)
  fold(redis.call('ZPOPMIN', pset, take))
  due, budget = due - take, budget - take
end

-- Backwash: swaps the youngest reserved mark with an older waiting one. A smaller n than
-- before also sends the youngest back.
local function send_back()
  local member, score = unpack(redis.call('ZPOPMAX', cset))
  known = known - redis.call('HDEL', folds, member)
  reserved = reserved - 1
  returned = returned + redis.call('ZADD', pset, 'LT', score, member)
end
while backwash and budget > 0 do
  if reserved > n then
    draw()
    send_back()
  else
    local oldest = redis.call('ZRANGEBYSCORE', pset, '-inf', horizon, 'WITHSCORES', 'LIMIT', 0, 1)
    local youngest = redis.call('ZREVRANGE', cset, 0, 0, 'WITHSCORES')
    if reserved < n or not oldest[1] or score_of(oldest[2]) >= score_of(youngest[2]) then
      break
    end
    draw()
    redis.call('ZREM', pset, oldest[1])
    fold(oldest)
  end
  budget = budget - 1
end
count('reserved', moved)
count('left', moved - returned)

local more = budget == 0 and (reserved < n and due > 0 or backwash) and 1 or 0
local entries = {}
if more == 0 and reserved > first then
  entries = redis.call('ZRANGE', cset, first, math.min(n, first + page) - 1, 'WITHSCORES')
  local bytes, last = 0, 2
  for i = 1, #entries, 2 do
    bytes, last = bytes + #entries[i], i + 1
    if bytes > 1048576 then
      break
    end
  end
  for i = #entries, last + 1, -1 do
    entries[i] = nil
  end
  if first + #entries / 2 < math.min(n, reserved) then
    more = 2
  end
end

-- Members without a number in folds get this one.
if #entries > 0 and known ~= reserved then
  if seq == 0 then
    draw()
  end
  local members = {}
  for i = 1, #entries, 2 do
    members[#members + 1] = entries[i]
  end
  for i, fold_number in ipairs(redis.call('HMGET', folds, unpack(members))) do
    if not fold_number then
      draw()
      redis.call('HSET', folds, members[i], number)
    end
  end
end

local pause = -1
if #entries == 0 and more == 0 then
  local marks = settle > 0 and redis.call('ZRANGE', pset, 0, 0, 'WITHSCORES') or {}
  if marks[2] then
    pause = score_of(marks[2]) * 1e6 + settle - now
  end
  local rest = resting > 0 and redis.call('ZRANGE', parked, 0, 0, 'WITHSCORES') or {}
  if rest[2] and (not marks[2] or score_of(rest[2]) * 1000 - now < pause) then
    pause = score_of(rest[2]) * 1000 - now
  end
  if marks[2] or rest[2] then
    pause = math.max(0, math.min(pause, 3600e6))
  end
end

return {
  string.match(tokens, '%S+') or '', string.format('%.0f', now), pause, more,
  committed, kept, entries,
}
