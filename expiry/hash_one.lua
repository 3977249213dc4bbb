-- fragment hash_one: the one hash that a write is about
--
-- Its name is the first argument.
--
-- Needs  K, now, sweep, rescore: as in hash_shard
-- Gives  name: of the hash
--        h, t: keys of its values and of its deadlines
--        expired(score): whether a deadline, or false for none, has come
--        tidy(changed): removes a few expired fields on the way out, so that
--        garbage is bounded without upkeep, and corrects the index if that or the
--        script itself took deadlines away
local name = ARGV[1]
local h, t = K .. ':h:' .. name, K .. ':t:' .. name

local function expired(score)
  return score and tonumber(score) <= now
end

local function tidy(changed)
  if sweep(name, 10) > 0 or changed then
    rescore(name)
  end
end
