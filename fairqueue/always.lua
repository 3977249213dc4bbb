-- fragment always: scripts that have the functions of limits in each queue
--
-- They may be the first to set a limit, or are not called often.
--
-- Needs    record
-- Gives    plain, hot: false, see the fragment plain
local plain, hot = false, false
