-- fragment epoch: in which epoch a value is, and how that ends
--
-- An epoch is a number of 64 bits, which does not fit into Lua's, and is compared as a
-- text. What a key had when one began is kept for a day, under a name of that epoch.
-- That name is used only where the key is in that epoch or a later one, so the RENAME
-- finds nothing to overwrite.
--
-- Needs  K: what all keys of the server begin with
--        base: what the side keys begin with
-- Gives  ended_life: for how long an ended value is kept, in milliseconds
--        earlier(a, b): whether one epoch comes before another one; false is before all
--        epoch_of(key) -> the epoch that a key is in, false if it was never reset
--        ended_key(key, epoch) -> where a key's value went when that epoch began
--        begin_epoch(key, epoch): does that
local ended_life = 86400000

local function earlier(a, b)
  local x, y = a or '0', b or '0'
  return #x < #y or #x == #y and x < y
end

local function epoch_of(key)
  return redis.call('HGET', base .. ':epochs', key)
end

local function ended_key(key, epoch)
  return base .. ':ended:' .. epoch .. ':' .. key
end

local function begin_epoch(key, epoch)
  if redis.call('EXISTS', K .. key) == 1 then
    redis.call('RENAME', K .. key, ended_key(key, epoch))
    redis.call('PEXPIRE', ended_key(key, epoch), ended_life)
  end
  redis.call('HSET', base .. ':epochs', key, epoch)
end
