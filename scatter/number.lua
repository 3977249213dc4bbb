-- fragment number: what Redis takes for a number
--
-- Redis keeps counters as texts, and what INCRBY takes for one is not what Lua does.
--
-- Needs  nothing
-- Gives  number_kind(text) -> 'integer' for one of 64 bits, or what looks like it and
--        does not fit; 'float'; nil for what is none
local function number_kind(text)
  local digits = string.match(text, '^%-?(%d+)$')
  if digits and #digits < 20 and (string.byte(digits) ~= 48 or text == '0') then
    return 'integer'
  end
  local value = string.find(text, '^[-+.%d][-+.%deE]*$') and tonumber(text)
  return value and math.abs(value) < math.huge and 'float' or nil
end
