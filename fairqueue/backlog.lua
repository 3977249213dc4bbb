-- fragment backlog: the end of a long flow
--
-- A flow has its first entries in hot, and others in backlog: see flows.
--
-- Needs    nothing
-- Touches  backlog
-- Gives    refill(flow) -> the record of a flow whose first entries are taken: the next ones, which leave backlog, or
--          false without any; or an error, and then nothing was changed
local function refill(flow)
  local backlog = prefix .. 'backlog'
  local page = redis.pcall('ZRANGEBYLEX', backlog, '[' .. flow .. '\1', '(' .. flow .. '\2', 'LIMIT', '0', '17')
  if page.err or #page == 0 then
    return page.err and page or false
  end
  local more = page[17]
  page[17] = nil
  redis.call('ZREM', backlog, unpack(page))
  for i = 1, #page do
    page[i] = string.sub(page[i], -18)
  end
  return (more and '+' or '.') .. table.concat(page)
end
