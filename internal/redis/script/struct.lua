-- fragment struct: records of numbers, eight bytes each
--
-- The runner puts this in front of scripts for servers that lack Lua's library struct, as imitations of Redis do.
-- Of its formats it has d, a double with its lowest byte first, and cN, a text of N bytes.
--
-- Needs    nothing
-- Gives    struct: pack(format, value ...) -> text; unpack(format, text) -> value ...
local struct = {
  pack = function(format, ...)
    local parts = {}
    for kind, size in string.gmatch(format, '([dc])(%d*)') do
      local value = select(#parts + 1, ...)
      if kind == 'c' then
        parts[#parts + 1] = string.sub(value, 1, tonumber(size))
      else
        local bytes, mantissa, exponent = {}, math.frexp(math.abs(value))
        mantissa, exponent = value == 0 and 0 or (mantissa * 2 - 1) * 2 ^ 52, value == 0 and 0 or exponent + 1022
        for i = 1, 6 do
          bytes[i], mantissa = mantissa % 256, math.floor(mantissa / 256)
        end
        bytes[7] = mantissa % 16 + exponent % 16 * 16
        bytes[8] = math.floor(exponent / 16) + (value < 0 and 128 or 0)
        parts[#parts + 1] = string.char(unpack(bytes))
      end
    end
    return table.concat(parts)
  end,
  unpack = function(format, text)
    local values, at = {}, 1
    for kind, size in string.gmatch(string.sub(format, 2), '([dc])(%d*)') do
      size = kind == 'd' and 8 or tonumber(size)
      if at + size - 1 > #text then
        error('data string too short')
      end
      if kind == 'c' then
        values[#values + 1] = string.sub(text, at, at + size - 1)
      else
        local b = {string.byte(text, at, at + 7)}
        local exponent, mantissa = b[8] % 128 * 16 + math.floor(b[7] / 16), b[7] % 16
        for i = 6, 1, -1 do
          mantissa = mantissa * 256 + b[i]
        end
        local value = exponent == 0 and 0 or math.ldexp(mantissa / 2 ^ 52 + 1, exponent - 1023)
        values[#values + 1] = b[8] > 127 and -value or value
      end
      at = at + size
    end
    return unpack(values)
  end,
}
