-- fragment wire: the version of what is stored
--
-- The kind of a namespace is told by how its keys begin.
--
-- Needs    nothing
-- Gives    wire: that of values, or of hashes
local wire = string.sub(K, 1, 6) == 'mr:key' and '2' or '3'
