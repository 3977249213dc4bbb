-- fragment tidy: forgets the answers of idle lanes
--
-- Calls forget old answers themselves; see fragment lane. This is for a structure that is no
-- longer called. It removes each hash whose time has passed, but not in a slot that moves, where
-- it could not be recreated.
--
-- Needs    nothing
-- Touches  lanes:0, lanes:1
-- Gives    tidy_lanes() -> how many answers were forgotten
local function tidy_lanes()
  local forgotten, time = 0, tonumber(redis.call('TIME')[1])
  local moving = on_cluster and type(redis.pcall('EXISTS', prefix .. 'none')) == 'table'
  for i = 0, moving and -1 or 1 do
    local lanes, keyed = prefix .. 'lanes:' .. i, prefix .. 'keyed:' .. i
    local period = redis.call('HGET', lanes, '')
    local size = period and redis.call('HLEN', lanes) - 1 or 0
    if size > 0 and tonumber(period) < math.floor(time / 600) - 1 then
      redis.call('UNLINK', lanes)
      redis.call('HSET', lanes, '', '0')
      forgotten = forgotten + size
    end
    period = redis.call('HGET', keyed, '')
    if period and tonumber(period) < math.floor(time / 86400) - 1 then
      forgotten = forgotten + redis.call('HLEN', keyed) - 1
      redis.call('UNLINK', keyed)
    end
  end
  return forgotten
end
