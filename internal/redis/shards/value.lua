-- fragment value: how a value or field is stored
--
-- Two bytes of mark and version, 250 and 2; the deadline in Unix milliseconds, six bytes
-- with the most significant first; the caller's bytes. It exists while the clock is less
-- than its deadline. The largest deadline stands for none.
--
-- Needs  nothing
-- Gives  deadline_of(value): the deadline of a stored value, infinite for none, 0 for false,
--        nil for an invalid value
--        head_of(deadline): the eight bytes in front of a value that has it
local function deadline_of(value)
  if not value then
    return 0
  end
  local mark, version, a, b, c, d, e, f = string.byte(value, 1, 8)
  if mark ~= 250 or version ~= 2 or not f then
    return nil
  end
  local deadline = ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
  return deadline < 281474976710655 and deadline or math.huge
end

local function head_of(deadline)
  local low = math.min(deadline, 281474976710655) % 16777216
  local high = (math.min(deadline, 281474976710655) - low) / 16777216
  local c, f = high % 256, low % 256
  local ab, de = (high - c) / 256, (low - f) / 256
  return string.char(250, 2, (ab - ab % 256) / 256, ab % 256, c, (de - de % 256) / 256, de % 256, f)
end
