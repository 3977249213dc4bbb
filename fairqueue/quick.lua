-- fragment quick: tenants of a stream whose handlers are quick
--
-- The state of an owner without a flow of its own is forgotten when none of its messages is in flight. The field q#N of
-- hot has owners whose handlers took 20 ms or less until then, each with \1 before and behind it, up to 1,000 bytes. It goes
-- when no message waits in the stream.
--
-- Needs    nothing
-- Gives    is_quick(names, owner) -> whether the field names the owner; names is nil or false without one
--          remember(names, owner, mean) -> the field after a mean time of that owner's handlers
local function is_quick(names, owner)
  return names and string.find(names, '\1' .. owner .. '\1', 1, true)
end

local function remember(names, owner, mean)
  local from, to = string.find(names or '', '\1' .. owner .. '\1', 1, true)
  if mean > 20 and from then
    return string.sub(names, 1, from) .. string.sub(names, to + 1)
  elseif from or mean < 0 or mean > 20 then
    return names
  end
  names = (names or '\1') .. owner .. '\1'
  while #names > 1000 do
    names = string.match(names, '^\1[^\1]*(\1.*)$')
  end
  return names
end
