-- fragment answers: the answer of a general call
--
-- lanes has each lane: it is entered when it is new, and forgotten ten to twenty minutes after its last call, see tend.
-- Without a lane, an empty text, nothing is stored. Requests that another process may repeat have a
-- lane of their own, which is used once. They lie in two hashes that take turns for a day.
--
-- Needs    record, ticket
-- Gives    answered: the answer to an earlier try of this call, or false
--          keyed: whether it is a request that its client repeats, perhaps much later
--          answer(text): stores the answer and returns it; before save, and not a script's first
--          write
local keyed, known = ticket == '0000000000000000idempotency', true
if lane ~= '' and #ticket ~= 27 then
  return redis.error_reply('TICKET a ticket has 27 bytes')
elseif keyed then
  local day = math.floor(now / 86400000)
  for back = 0, 1 do
    local last = redis.pcall('HMGET', prefix .. 'keyed:' .. (day - back) % 2, '', lane)
    answered = answered or last[2] and tonumber(last[1] or 0) >= day - back and last[2] -- also of a clock that was ahead
  end
elseif lane ~= '' then
  known = redis.call('HGET', hot, 'l' .. lane)
  redis.call('ZCARD', prefix .. 'lanes') -- a key of another type ends the script here
  answered = known and replay(known)
  if answered and answered.err then
    return answered
  end
end

local function answer(text)
  if keyed then
    local day = math.floor(now / 86400000)
    local key = prefix .. 'keyed:' .. day % 2
    if tonumber(redis.call('HGET', key, '') or 0) < day then
      redis.call('UNLINK', key)
    end
    redis.call('HSET', key, '', whole(day), lane, text)
  elseif lane ~= '' then
    if not known then
      redis.call('ZADD', prefix .. 'lanes', clock[1], lane)
    end
    sets['l' .. lane] = ticket .. clock[1] .. text
  end
  return text
end
