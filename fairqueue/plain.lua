-- fragment plain: scripts that are called often spare themselves the functions of limits
--
-- Each function that a script defines costs a call about a microsecond. In a queue without limits
-- write and work do not need them.
--
-- Needs    record
-- Gives    plain: whether the functions of the fragment limits do not exist
--          hot: true, so that of them only those exist that this queue needs
local plain, hot = not limits, true
