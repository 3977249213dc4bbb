-- fragment assign: sets fields of a hash
--
-- It is for writes that the fragment quick does not handle: new hashes, conditions, kept deadlines,
-- expired fields.
--
-- Needs  hash
-- Gives  assign(from, only, life, deadline) -> whether it did, or an error: sets the fields and
--        values from that argument on, or removes them if the deadline is past. Only is 'new'
--        if no field may exist, 'old' if all must, or ''; with the life 'keep' each field keeps
--        its deadline. It removes as many expired fields as it sets, or ten
local function assign(from, only, life, deadline)
  local places, alive, had = {}, 0, {}
  for i = from, #ARGV, 2 do
    if ARGV[i] == '' then
      return redis.error_reply('BROKEN a field has no place')
    end
    places[#places + 1] = ARGV[i]
  end
  local number = #places
  if only ~= '' or life == 'keep' or deadline <= now then
    had = look(places)
    for i = 1, number do
      if not had[i] and (only ~= '' or life == 'keep') then
        return redis.error_reply('BROKEN ' .. places[i] .. ' is no value')
      end
      had[i] = had[i] or math.huge
      alive = alive + (had[i] > now and 1 or 0)
    end
  end
  if only == 'new' and alive > 0 or only == 'old' and alive < number then
    return false
  elseif deadline <= now then
    settle(name, places, alive, math.max(10, number), at)
    return true
  end
  local head = head_of(deadline)
  for i, place in ipairs(places) do
    local kept = life == 'keep' and had[i] > now
    if not kept then
      list(place, deadline)
    end
    ARGV[from + 2 * i - 1] = (kept and head_of(had[i]) or head) .. ARGV[from + 2 * i - 1]
  end
  store(ARGV, from)
  settle(name, {}, 0, math.max(10, number), at)
  return true
end
