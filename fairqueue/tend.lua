-- fairqueue.tend(K) -> 1 or 0, or 2
--
-- Does what is due in a queue that nobody reads at the moment: brings back what
-- has to come again, drops streams that are no longer used, removes waiting
-- messages whose deadline has come, forgets consumers that have nothing in flight
-- and did not come for a minute, and the answers of lanes that rest, and removes the
-- queue whole when it was not touched for the time that it asked for.
--
-- Needs    due, tidy
-- Touches  dedupe, dedupes, lanes:0, lanes:1, keyed:0, keyed:1
-- KEYS[1]  K
-- ARGV     none
-- Reply    0 when nothing was due, 1 when something was, 2 when there is probably
--          more
-- Cost     as a read; looks at 100 waiting messages, and on average at 100
--          consumers, of each of 4 streams, and goes on from there the next time
-- Repeat   harmless: the second run finds less to do
if streams == 0 then
  return 0
end
sound()
local record = redis.call('HMGET', K, 'tended', 'touched')
local attempts, from = limit('0'), tonumber(record[1] or 0)
redis.call('HDEL', K, '') -- a first write that a full server does not refuse

local brought = tend_due(attempts)
local done = brought + drop_streams()
tidy_lanes()

local head = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
if head[2] then
  call_at('d', tonumber(head[2]))
end

local function expire(i)
  local key = stream_key(i)
  local last
  for _, one in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    if field_of(one, 'name') == group then
      last = field_of(one, 'last-delivered-id')
    end
  end
  local expired = 0
  for _, one in ipairs(redis.call('XRANGE', key, last and '(' .. last or '-', '+', 'COUNT', 100)) do
    local deadline = tonumber(field_of(one[2], 'd') or 0)
    if deadline > 0 and deadline <= now then
      redis.call('XDEL', key, one[1])
      forget(field_of(one[2], 'i') or one[1] .. '.' .. i)
      expired = expired + 1
    end
  end
  if expired > 0 then
    go(i, expired)
    count('expired', expired)
  end
  return expired
end

-- A reader that comes back is a consumer again. Redis shows them all or none: of a
-- thousand, it is all of them in one call of ten.
local function dismiss(i)
  local key, gone = stream_key(i), 0
  for _, group_found in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    if field_of(group_found, 'name') == group and clock[2] % field_of(group_found, 'consumers') < 100 then
      for _, one in ipairs(redis.call('XINFO', 'CONSUMERS', key, group)) do
        if field_of(one, 'pending') == 0 and field_of(one, 'idle') > 60000 then
          redis.call('XGROUP', 'DELCONSUMER', key, group, field_of(one, 'name'))
          gone = gone + 1
        end
      end
    end
  end
  return gone
end

-- A stream with entries in flight of which nobody knows when to look after it:
-- somebody deleted the key that says so.
local function look_after(i)
  for _, one in ipairs(redis.call('XINFO', 'GROUPS', stream_key(i))) do
    if field_of(one, 'name') == group and field_of(one, 'pending') > 0 and not redis.call('ZSCORE', due, i) then
      call_at(i, now)
      return 1
    end
  end
  return 0
end

for step = 0, math.min(4, span) - 1 do
  local i = (from + step) % span
  if redis.call('EXISTS', stream_key(i)) == 1 then
    done = done + expire(i) + dismiss(i) + look_after(i)
  end
end
redis.call('HSET', K, 'tended', (from + 4) % span)
book()
count('moved', brought)

local after, force = string.match(expiry or '', '^(%d+)(!?)$')
if after and now - tonumber(record[2] or now) > tonumber(after) then
  local flying = 0
  for i = 0, span - 1 do
    flying = flying + redis.call('XLEN', stream_key(i))
  end
  if force == '!' or flying + redis.call('ZCARD', delayed) + redis.call('XLEN', dead) == 0 then
    for i = 0, span - 1 do
      redis.call('UNLINK', stream_key(i))
    end
    redis.call('UNLINK', K, K .. ':waits', due, delayed, later, places, dead, K .. ':dedupe', K .. ':dedupes', K .. ':wake',
      K .. ':lanes:0', K .. ':lanes:1', K .. ':keyed:0', K .. ':keyed:1')
    return 1
  end
end
ring(brought)
return brought >= 200 and 2 or done > 0 and 1 or 0
