-- fairqueue.catchup(K) attempts mend -> number of messages
--
-- Does what a reader found to be due: brings back messages whose time has come or
-- whose reader did not finish in time, and drops streams that are no longer used.
--
-- Needs    due
-- KEYS[1]  K
-- ARGV[1]  attempts: after this many deliveries a message is dead; 0 for what is
--          stored
-- ARGV[2]  mend: '1' if nothing was found though something should be there; then
--          the keys that index messages are compared with the messages
-- Reply    how many messages wait again
-- Cost     looks at 4,000 entries in flight and moves about 200 at most; to mend,
--          O(streams), at most 1,024
-- Repeat   harmless: the second run finds less to do
if streams == 0 then
  return 0
end
sound()
redis.call('HDEL', K, '') -- a first write that a full server does not refuse
local brought = tend_due(limit(ARGV[1]))
drop_streams()
if ARGV[2] == '1' then
  mend_index()
end
book()
count('moved', brought)
ring(brought)
return brought
