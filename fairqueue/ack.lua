-- fairqueue.ack(K) {stream message count entry ...} ... -> {number, ...}
--
-- Removes messages that were handled, memory and all. An entry whose message
-- became visible again and was taken up, or that was acknowledged already, is
-- stale and changes nothing.
--
-- Needs    version, lane
-- KEYS[1]  K
-- ARGV     groups, each one of a stream: its index; the id of the message, in a
--          group of one entry whose message moved, or ''; how many entries; the
--          entries. At most 1,000 entries in all, 100 in a group
-- Reply    which entries are stale, by their number in the call from 1 on
-- Cost     O(1) an entry
-- Repeat   harmless: the lane knows the answer
local found = redis.call('HMGET', K, 'version', 'group')
local group, no = found[2], refused(found[1])
if no then
  return no
end
if answered then
  local before = {}
  for number in string.gmatch(answered, '%d+') do
    before[#before + 1] = tonumber(number)
  end
  return before
end

-- Which of a stream's entries were just acknowledged, when not all of them were.
-- Each delivery has an entry of its own, which goes with it: so those that are
-- there were, unless they were not delivered yet.
local function acknowledged(key, entries)
  local delivered
  for _, one in ipairs(redis.call('EXISTS', key) == 1 and redis.call('XINFO', 'GROUPS', key) or {}) do
    for j = 1, #one, 2 do
      if one[j] == 'last-delivered-id' and one[2] == group then
        delivered = one[j + 1]
      end
    end
  end
  local were, seen = {}, {}
  for j, entry in ipairs(entries) do
    local head = delivered and not seen[entry] and redis.call('XRANGE', key, entry, delivered, 'COUNT', 1)[1]
    were[j] = head and head[1] == entry
    seen[entry] = true
  end
  return were
end

redis.call('HLEN', K .. ':places')
local gone, acked, number, at = {}, 0, 0, 1
while at < #ARGV do
  local message, first, last = ARGV[at + 1], at + 3, at + 2 + tonumber(ARGV[at + 2])
  local key, wanted = K .. ':s:' .. ARGV[at], last - at - 2
  local done = group and redis.call('XACK', key, group, unpack(ARGV, first, last)) or 0
  if done == wanted then
    redis.call('XDEL', key, unpack(ARGV, first, last))
  else
    local entries = {unpack(ARGV, first, last)}
    local were = done > 0 and acknowledged(key, entries) or {}
    for j, entry in ipairs(entries) do
      if were[j] then
        redis.call('XDEL', key, entry)
      else
        gone[#gone + 1] = number + j
      end
    end
  end
  if done > 0 and message ~= '' then
    redis.call('HDEL', K .. ':places', message)
  end
  acked, number, at = acked + done, number + wanted, last + 1
end
if acked > 0 then
  redis.call('HINCRBY', K, 'acked', acked)
  answer(table.concat(gone, ' '))
end
return gone
