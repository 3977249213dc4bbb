-- fragment reqid: remembers answers by request id
--
-- Two hashes take turns. Answers are written to the current one; when it holds
-- 10,000 of them or is a minute old, it takes the place of the previous one. An
-- answer is found in either. Only one answer in eight, by its id, looks whether it
-- is time for that, since the look costs more than the answer.
--
-- Needs  req, req_before: the two hashes' keys
-- Gives  reqid_recall(id) -> answer or false
--        reqid_remember(id, answer, now): now in microseconds; not a script's
--        first write, since a full server refuses it there; best effort
local function reqid_recall(id)
  return redis.call('HGET', req, id) or redis.call('HGET', req_before, id)
end

local function reqid_remember(id, answer, now)
  local kept = redis.pcall('HSET', req, id, answer)
  if type(kept) == 'number' and string.byte(id) % 8 == 1 then
    local since = tonumber(redis.call('HGET', req, 'since') or nil)
    if not since then
      redis.call('HSET', req, 'since', string.format('%.0f', now))
    elseif now - since > 60e6 or redis.call('HLEN', req) > 10000 then
      redis.call('UNLINK', req_before) -- a RENAME over it would free it here and now
      redis.call('RENAME', req, req_before)
    end
  end
end
