-- fragment key_value: what a value says of itself
--
-- A value is two bytes of mark and version, 250 and 2; its deadline in Unix
-- milliseconds, six bytes with the most significant first; and what the caller stored.
-- It is there while the clock shows less than its deadline.
--
-- Needs  nothing
-- Gives  deadline_of(value): the deadline of what is stored, 0 of nothing, nil of what is
--        no value
--        head_of(deadline): the eight bytes in front of a value that has it
local function deadline_of(value)
  if not value then
    return 0
  end
  local mark, version, a, b, c, d, e, f = string.byte(value, 1, 8)
  if mark ~= 250 or version ~= 2 or not f then
    return nil
  end
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end

local function head_of(deadline)
  local head = ''
  for _ = 1, 6 do
    head = string.char(deadline % 256) .. head
    deadline = math.floor(deadline / 256)
  end
  return '\250\2' .. head
end
