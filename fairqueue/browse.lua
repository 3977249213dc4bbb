-- fairqueue.browse(K) place max tenant at after [stream ...] -> {...} or nil
--
-- Looks at messages and changes nothing. It goes through one stream after the
-- other in the order of their entries, and a message that stays keeps its entry: so
-- where one page ended is where the next one begins.
--
-- Needs    open
-- KEYS[1]  K
-- ARGV[1]  place: 'waiting', 'in_flight', or 'delayed' for those set aside
-- ARGV[2]  max: how many messages, at most 1,000
-- ARGV[3]  tenant: whose; '' for everybody's
-- ARGV[4]  at: the stream to begin in, 0 for those set aside
-- ARGV[5]  after: the entry behind which to begin there
-- ARGV     the tenant's streams; not looked at for everybody's and those set aside
-- Reply    nil without a queue, else {the server's clock; 'stream.entry' after which
--          to go on, '' at the end; {stream, entry, {field, value, ...}, consumer,
--          idle} ...}. The last two for messages in flight: who has it, and for how
--          many milliseconds; the stream of one set aside is where it will go
-- Cost     O(streams), at most 1,024; looks at 1,000 messages at most
-- Repeat   harmless: it writes nothing
if streams == 0 then
  return false
end
local place, max, tenant, at, after = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
local reply, looked = {string.format('%.0f', now), ''}, 0

-- Up to which entry the group has taken a stream's messages, or nil.
local function taken(key)
  for _, one in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    if field_of(one, 'name') == group then
      return field_of(one, 'last-delivered-id')
    end
  end
end

-- At least n of the entries behind one, if there are so many, as {entry, fields,
-- consumer, idle}. One in flight whose message somebody deleted has no fields.
-- (XPENDING from behind an entry is more than miniredis can.)
local function behind(key, from, n)
  if place ~= 'in_flight' then
    return redis.call('XRANGE', key, '(' .. from, '+', 'COUNT', n)
  end
  local found = {}
  for _, one in ipairs(redis.call('XPENDING', key, group, from, '+', n + 1)) do
    if one[1] ~= from then
      local message = redis.call('XRANGE', key, one[1], one[1])[1]
      found[#found + 1] = {one[1], message and message[2], one[2], one[3]}
    end
  end
  return found
end

-- Puts what is wanted of a stream into the reply, and tells whether that is all
-- for this page.
local function browse(i, key, from)
  repeat
    local n = math.min(1000 - looked, tenant == '' and max + 2 - #reply or 100)
    local found = behind(key, from, n)
    for _, one in ipairs(found) do
      local fields = one[2]
      from, looked = one[1], looked + 1
      if fields and (tenant == '' or field_of(fields, 't') == tenant) then
        local index = place == 'delayed' and (tonumber(field_of(fields, 's') or 0) or 0) % streams or i
        reply[#reply + 1] = {index, from, fields, one[3], one[4]}
      end
      if #reply == max + 2 or looked == 1000 then
        reply[2] = i .. '.' .. from
        return true
      end
    end
  until #found < n
  return false
end

if place == 'delayed' then
  browse(0, K .. ':later', after)
  return reply
end
local mine = {}
for j = 6, #ARGV do
  mine[tonumber(ARGV[j])] = true
end
for i = at, span - 1 do
  local key, from = stream_key(i), i == at and after or '0-0'
  if (tenant == '' or mine[i]) and redis.call('XLEN', key) > 0 then
    local last = taken(key)
    if place == 'waiting' and last and redis.call('XRANGE', key, '(' .. from, last, 'COUNT', 1)[1] then
      from = last
    end
    if (place == 'waiting' or last) and browse(i, key, from) then
      break
    end
  end
end
return reply
