-- fragment failing: tenants whose messages fail
--
-- The field f of hot has the tenants that failed last, 32 at most: \1, and of each its flow, \1, five words with a space
-- between, and \1. The words are how many of its deliveries failed, how many of its messages died, since when it fails,
-- when it failed last, both in milliseconds, and why. A tenant moves to the end when it fails, and one that did not fail for
-- ten minutes begins again. In a full table the first one makes room if it did not fail for ten minutes, or failed by a
-- clock that was ahead, else the one with the fewest failures. Only calls in which a delivery fails touch the field.
--
-- Needs    record
-- Gives    note_failure(owner, died, why): notes that a delivery of a tenant failed; at most 200 bytes of why
local function note_failure(owner, died, why)
  local text, most, quiet = sets.f or redis.call('HGET', hot, 'f') or '\1', 32, 600000
  local first, last = string.match(text, '^\1([^\1]*)\1%d+ %d+ %d+ (%d+) [^\1]*\1')
  if not first then
    text = '\1' -- it is empty
  end
  local made, deaths, since = 0, 0, now
  local from, to = string.find(text, '\1' .. owner .. '\1', 1, true)
  if not from and first then
    local count, fewest, goes = 0, math.huge, nil
    for flow, failed in string.gmatch(text, '([^\1]+)\1(%d+)[^\1]*') do
      count = count + 1
      if failed + 0 < fewest then
        goes, fewest = flow, failed + 0
      end
    end
    goes = (now - last >= quiet or last - now > 1000) and first or goes
    if count >= most then
      from, to = string.find(text, '\1' .. goes .. '\1', 1, true)
    end
  elseif from then
    local failed, died_by_now, began, before = string.match(text, '^(%d+) (%d+) (%d+) (%d+) ', to + 1)
    if began and now - before < quiet then
      made, deaths, since = failed + 0, died_by_now + 0, math.min(began + 0, now)
    end
  end
  if from then
    text = string.sub(text, 1, from) .. string.sub(text, (string.find(text, '\1', to + 1, true) or #text) + 1)
  end
  sets.f = text .. owner .. '\1' .. whole(made + 1) .. ' ' .. whole(deaths + (died and 1 or 0)) .. ' ' .. whole(since) .. ' ' .. instant .. ' ' ..
    string.sub(why, 1, 200) .. '\1'
end
