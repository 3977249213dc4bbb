-- fairqueue.tenant(K) owner verb arg arg -> text
--
-- Changes limits, pauses and messages of a tenant.
--
-- Needs    record, flows, limits, owners, dedupes, batches, returns, answers, begin
-- KEYS[1]  K
-- ARGV[1]  owner: '=TENANT'; 'default' for the limits of tenants that have none
-- ARGV[2]  verb: 'limit' stores limits, 'suspend' has the tenant wait, 'resume' ends that, 'purge' removes its messages that
--          are delayed, and then those that wait, a page of them; and 'review', after a change of the default, activates a
--          page of all owners that sleep by a rate: the next read has those sleep again that must
-- ARGV     limit: seven words, of the limits in their order: '.' for one that stays, '-' so that the default applies, or
--          its value; '1' to set only those for which the default applies so far.
--          suspend: for how many milliseconds at least, or '+inf'.
--          review: the score at which to go on, '-inf' at first; how many with that score are left out.
--          purge: 'SCORE MEMBER' of the delayed message with which to go on, from the latest on, '+inf ' at first; ''
--          for those that wait
-- Reply    nil without a queue, 'streams' if flows are streams. Of limit 1, or 0 if all that was to be set was set before;
--          of suspend and resume 1; of review its next arguments, a space at the end; of purge how many messages were
--          removed and its next argument: of those that wait, a page with fewer than 33 is the last one
-- Cost     O(log N) for each of 50 owners or 33 messages, O(1) for each of 300 that are looked at
-- Repeat   harmless: the lane knows the answer
local owner, asleep, verbs = ARGV[1], prefix .. 'asleep', {}

function verbs.limit(change, if_unset)
  local key, is_default, words, at, bad = prefix .. 'limits', owner == 'default', {}, 0, false
  local before = redis.call('HGET', key, owner) or '- - - - - - -'
  for word in string.gmatch(before, '%S+') do
    words[#words + 1] = word
  end
  for word in string.gmatch(change, '%S+') do
    at = at + 1
    if word ~= '.' and (if_unset ~= '1' or words[at] == '-') then
      local value, least = tonumber(word), at == 1 and 0.01 or at == 4 and 1e-6 or 0
      bad = bad or word ~= '-' and not (value and (value >= least or value == 0 and at > 1) and value <= 1e9)
      words[at] = word
    end
  end
  local after, new = table.concat(words, ' '), ''
  local weight, most, share, rate, waiting, stopped =
    string.match(after, '^([-%d.]+) ([-%d]+) ([-%d.]+) ([-%d.]+) [-%d]+ ([-%d]+) ([-01])$')
  if bad or not most or at ~= 7 then
    return nil, redis.error_reply('ERR not limits: ' .. change)
  elseif after == before and if_unset == '1' then
    return nil, '0'
  end
  local function some(word)
    return (tonumber(word) or 0) ~= 0
  end
  if string.find(after, '[%d]') then
    new = 'w' .. (is_default and 'd' or '') .. (stopped == '1' and 'p' or '') .. ((some(most) or some(share)) and 'f' or '') ..
      (some(rate) and 'r' or '') .. (some(waiting) and 'm' or '') ..
      (is_default and ((tonumber(weight) or 1) ~= 1 or some(waiting) or stopped == '1') and 'g' or '')
  else
    after = ''
  end
  if is_default then
    kinds = string.gsub(kinds or '', '[dg]', '')
  end
  enable(new, is_default and 1 or 0)
  if is_default then
    local rule = parse(after, none)
    gone.d, sets.d = true, after ~= '' and struct.pack('<dddd', rule.most, rule.share, rule.gap or 0, rule.room or 0) or nil
  end
  redis.call('HSET', key, '', string.rep('0', 65)) -- a long value makes a table of the hash, where fields are found at once
  redis.call('HDEL', key, owner)
  if after ~= '' then
    redis.call('HSET', key, owner, after)
  end
  if not is_default then
    local state = state_of(owner)
    state.limited, state.changed = after ~= '', true
    n.blocked = math.max(0, n.blocked - redis.call('ZREM', blocked, owner))
    local slept = tonumber(redis.call('ZSCORE', asleep, owner) or nil)
    if slept and slept < math.huge and slept ~= math.floor(slept) then
      redis.call('ZREM', asleep, owner)
    end
    activate(owner)
  end
  return '1'
end

function verbs.suspend(pause)
  if pause ~= '+inf' and not string.find(pause, '^%d+$') then
    return nil, redis.error_reply('ERR not a pause: ' .. pause)
  end
  suspend(owner, pause == '+inf' and math.huge or now + pause)
  return '1'
end

function verbs.resume()
  if epoch then
    redis.call('ZREM', asleep, owner)
    activate(owner)
  end
  return '1'
end

function verbs.review(score, skip)
  local list = epoch and redis.call('ZRANGEBYSCORE', asleep, score, '(inf', 'WITHSCORES', 'LIMIT', skip, '50') or {}
  for i = 1, #list, 2 do
    if list[i + 1] ~= score then
      score, skip = list[i + 1], 0
    end
    if tonumber(score) ~= math.floor(score) then
      redis.call('ZREM', asleep, list[i])
      activate(list[i])
    else
      skip = skip + 1 -- a pause
    end
  end
  return #list < 100 and ' ' or score .. ' ' .. skip
end

function verbs.purge(place)
  local removed, from = 0, owner .. '\1'
  local function remove_one(id)
    redis.call('ZREM', deadlines, id)
    remove(id)
    removed = removed + 1
  end
  if place == '' then
    while removed < 33 and head(owner) do
      remove_one(string.sub(head(owner), 2, 17))
      take_out(owner, string.sub(head(owner), 1, 17))
    end
    if not head(owner) then
      leave(owner)
    end
  else
    local score, last = string.match(place, '^(%S+) (.*)$')
    local rank = redis.call('ZREVRANK', delayed, last) or redis.call('ZCOUNT', delayed, '(' .. score, '+inf') -- gone: those of its score again
    local looked = redis.call('ZREVRANGE', delayed, whole(rank), whole(rank + 299), 'WITHSCORES')
    for i = 1, #looked, 2 do
      local member = looked[i]
      if removed == 33 then
        break
      elseif string.sub(member, 1, #from) == from then
        redis.call('ZREM', delayed, member)
        remove_one(string.match(member, '^%d(%d+)', #from + 1))
      else
        place = looked[i + 1] .. ' ' .. member
      end
    end
    place = (removed == 33 or #looked == 600) and place or ''
  end
  count('cancelled', removed)
  return removed .. ' ' .. place
end

if (streams or '') ~= '' then
  return 'streams'
end
local reply, refusal = verbs[ARGV[2]](ARGV[3], ARGV[4])
if refusal then
  return refusal
end
wake(64)
answer(reply)
save_batches()
save_states()
save()
return reply
