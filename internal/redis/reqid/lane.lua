-- fragment lane: a call that takes effect once, however often it is sent
--
-- A call has a lane, which it shares with no other call in flight, and a ticket: 16 digits of a
-- number that grows with each call of the lane, and 11 random letters. The answer to the last call
-- of a lane is stored with its ticket. The same ticket is a repeat, and gets that answer. A lower
-- number came too late, and the same number with other letters came from a copy of the machine:
-- both are refused. Without a lane, an empty text, nothing is stored.
--
-- Two hashes hold the answers in turn, for ten minutes each, so an idle lane is forgotten.
-- Requests that another process may repeat have a lane of their own, which is used once, and two
-- hashes that take turns for a day.
--
-- A hash is emptied by removing and recreating it. In a slot that moves to another node it could
-- not be recreated, so there it is not emptied.
--
-- Needs    clock
-- Touches  lanes:0, lanes:1
-- Beside   keyed:0, keyed:1
-- Makes    lanes:0 hash, lanes:1 hash
-- Gives    answered: the answer to an earlier try of this call, or false
--          keyed: whether it is a request that its client repeats, perhaps much later
--          answer(text, expires): stores the answer and returns it; not a script's first
--          write, since a full server refuses it there. With expires the hash has a Redis TTL:
--          for a structure without upkeep, which is never on a Cluster
local ticket, lane = ARGV[#ARGV], ARGV[#ARGV - 1]
ARGV[#ARGV] = nil
ARGV[#ARGV] = nil
local keyed = ticket == '0000000000000000idempotency'
local period = math.floor(now / (keyed and 86400000 or 600000))
local even, odd = keyed and 'keyed:0' or 'lanes:0', keyed and 'keyed:1' or 'lanes:1'
local current, answered, stale = prefix .. (period % 2 == 0 and even or odd), false, false
if lane ~= '' and #ticket ~= 27 then
  return redis.error_reply('TICKET a ticket has 27 bytes')
elseif lane ~= '' then
  local found = redis.call('HMGET', current, '', lane)
  stale = tonumber(found[1] or 0) < period
  local last = not stale and found[2]
  if not last then
    found = redis.call('HMGET', prefix .. (period % 2 == 0 and odd or even), '', lane)
    last = tonumber(found[1] or 0) >= period - 1 and found[2]
  end
  local number = last and string.sub(last, 1, 16)
  if number and number >= string.sub(ticket, 1, 16) then
    if string.sub(last, 17, 27) ~= string.sub(ticket, 17) or number ~= string.sub(ticket, 1, 16) then
      return redis.error_reply('LANE the lane is at ' .. number)
    end
    answered = string.sub(last, 28)
  end
end

local function answer(text, expires)
  if lane ~= '' then
    if stale and not (on_cluster and type(redis.pcall('EXISTS', prefix .. 'none')) == 'table') then
      redis.call('UNLINK', current)
    end
    if stale then
      redis.call('HSET', current, '', string.format('%d', period), lane, ticket .. text)
      if expires then
        redis.call('PEXPIREAT', current, string.format('%d', (period + 2) * (keyed and 86400000 or 600000)))
      end
    else
      redis.call('HSET', current, lane, ticket .. text)
    end
  end
  return text
end
