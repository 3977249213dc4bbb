-- fairqueue.settle(K) limit {receipt verb arg} ... -> verdicts
--
-- Gives back deliveries that were not handled.
--
-- Needs    record, flows, limits, owners, dedupes, batches, returns, answers, begin
-- KEYS[1]  K
-- ARGV[1]  limit: after so many deliveries a message is dead; 0 for the stored setting
-- ARGV     for each delivery, at most 40: its receipt; 'n' if it failed, 'd' if the message is
--          to die, 'b' if it failed and its delay doubles with each attempt, 'u' if no handler started
--          it, which is no attempt; 't' if its tenant is to pause, which is none either; the delay in
--          milliseconds, of 'b' that of the first attempt, a space and the reason
-- Reply    a digit for each: 0 for a stale receipt, 2 for a message that is dead, else 1; nil without a queue
-- Cost     O(log N) a delivery
-- Repeat   harmless: the lane knows the answer
local limit, verdicts, nacked, handed_back = tonumber(ARGV[1]), {}, 0, 0
limit = limit > 0 and limit or tonumber(attempts or 5)
for arg = 2, #ARGV, 3 do
  local receipt, verb, verdict = ARGV[arg], ARGV[arg + 1], 0
  local value = not gone[receipt] and redis.call('HGET', hot, receipt)
  if value then
    local wait, reason = string.match(ARGV[arg + 2], '^(%d+) (.*)$')
    if verb == 'b' then
      local made = past_of(string.sub(receipt, 1, 16))
      wait = math.floor(wait * math.min(600, 2 ^ made))
    end
    local handed, flow = verb == 'u' or verb == 't', string.match(value, '=.*$', 32)
    local suspends = verb == 't' and (streams or '') == '' -- of a stream only the message waits
    verdict = give_back(receipt, value, not handed, suspends and 0 or tonumber(wait), handed and math.huge or verb == 'd' and 0 or limit, reason,
      verb ~= 'u' and '' or nil)
    if suspends and verdict > 0 then
      suspend(flow, now + wait)
    end
    if verdict > 0 and handed then
      handed_back = handed_back + 1
    elseif verdict > 0 then
      nacked = nacked + 1
    end
  end
  verdicts[#verdicts + 1] = verdict
end
count('nacked', nacked)
count('returned', handed_back)
wake(returned + freed + earlier) -- a sleeping reader learns the next due time
answer(table.concat(verdicts))
save_batches()
save_states()
save()
return table.concat(verdicts)
