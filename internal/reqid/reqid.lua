-- fragment reqid: remembers answers by request id
--
-- Two hashes take turns. Answers are written to the current one; when it holds
-- 10,000 of them or 8 MB, or is a minute old, it takes the place of the previous
-- one. An answer is found in either. Only one short answer in eight, by its id,
-- looks whether it is time for that, since the look costs more than the answer.
--
-- Needs  req: the key of the current hash; that of the previous one ends with
--        _before
-- Gives  reqid_recall(id) -> answer or false
--        reqid_remember(id, answer); not a script's first write, since a full
--        server refuses it there; best effort
local function reqid_recall(id)
  return redis.call('HGET', req, id) or redis.call('HGET', req .. '_before', id)
end

local function reqid_remember(id, answer)
  local size = string.len(answer)
  local kept, long = redis.pcall('HSET', req, id, answer), size > 256
  if type(kept) ~= 'number' or not long and string.byte(id) % 8 ~= 1 then
    return
  end
  local bytes = long and redis.call('HINCRBY', req, 'bytes', size) or 0
  local clock = redis.call('TIME')
  local now, since = clock[1] * 1e6 + clock[2], tonumber(redis.call('HGET', req, 'since') or nil)
  if not since then
    redis.call('HSET', req, 'since', string.format('%.0f', now))
  elseif now - since > 60e6 or bytes > 8e6 or redis.call('HLEN', req) > 10000 then
    redis.call('UNLINK', req .. '_before') -- a RENAME over it would free it here and now
    redis.call('RENAME', req, req .. '_before')
  end
end
