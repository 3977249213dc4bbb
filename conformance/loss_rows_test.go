package conformance

// lossRows are the rows of docs/LOSS.md, in its order.
var lossRows = []lossRow{
	{
		name: "worker-killed", play: lossWorkerKilled,
		fault: "a worker is killed with `kill -9`", setting: "any",
		sees: "others get what it had when its visibility ends", do: "make handlers idempotent",
	},
	{
		name: "worker-stopped", play: lossWorkerStopped, code: "stale",
		fault: "a worker stands still for longer than its visibility", setting: "any",
		sees: "its late acknowledgements are `stale`", do: "make handlers idempotent. `Consume` extends messages for as long as its process runs",
	},
	{
		name: "redis-killed", play: lossRedisKilled, loses: waiting,
		fault: "the Redis process is killed", setting: "no persistence",
		sees: "calls wait until Redis is back. Then the queue is empty", do: "`appendonly yes`",
	},
	{
		name: "redis-killed-with-rdb", play: lossRedisKilledWithRDB, loses: late,
		fault: "the same", setting: "snapshots alone",
		sees: "calls wait. All is as it was at the last snapshot", do: "`appendonly yes`",
	},
	{
		name: "redis-killed-with-outbox", play: lossOutbox, code: "position_gap",
		fault: "the same", setting: "snapshots alone; writers keep a table, and number its rows",
		sees: "the next write is a `position_gap`: the writer asks for the queue's position, and writes again from there", do: "see [examples/outbox](../examples/outbox), which does that with PostgreSQL",
	},
	{
		name: "redis-killed-with-aof", play: lossRedisKilledWithAOF, loses: atMost,
		fault: "the same", setting: "`appendonly yes`, `appendfsync everysec`",
		sees: "calls wait", do: "nothing. While a sync of the disk hangs, Redis holds writes back for up to 2 s: these may be lost",
	},
	{
		name: "power-loss-with-everysec", play: lossPowerWithEverysec, loses: late,
		fault: "the machine loses power", setting: "`appendfsync everysec`",
		sees: "calls wait. The last second or two are gone", do: "`appendfsync always`, or a replica on another machine",
	},
	{
		name: "power-loss-with-always", play: lossPowerWithAlways,
		fault: "the same", setting: "`appendfsync always`",
		sees: "calls wait", do: "a disk that keeps its word: no volatile write cache",
	},
	{
		name: "sentinel", play: lossSentinel, loses: late,
		fault: "the master dies 0.1 s after its links to the replicas", setting: "Sentinels",
		sees: "calls wait. A lease that was acquired in that moment gets a second holder", do: "`min-replicas-to-write`, `WAIT`, or a fleet",
	},
	{
		name: "sentinel-with-min-replicas", play: lossSentinelMinReplicas, loses: atMost,
		fault: "the same", setting: "Sentinels, `min-replicas-to-write 1`",
		sees: "writes wait for a replica, and are `unavailable` after 5 s", do: "two replicas, so that one may be away. Writes of the moment until the master notices may be lost",
	},
	{
		name: "sentinel-with-wait", play: lossSentinelWait, code: "wait",
		fault: "the same", setting: "Sentinels, and a program that waits for all replicas itself",
		sees: "its `WAIT` counts too few replicas: it repeats the write under its dedupe id", do: "see [WAIT](#wait)",
	},
	{
		name: "cluster", play: lossCluster, loses: late,
		fault: "the same", setting: "Redis Cluster",
		sees: "calls wait", do: "as with Sentinels",
	},
	{
		name: "fleet", play: lossFleet(0), loses: late,
		fault: "the master dies when its replica has not heard of it for 0.1 s", setting: "a fleet",
		sees: "calls wait", do: "`WaitReplicas: 1`",
	},
	{
		name: "fleet-with-wait-replicas", play: lossFleet(1), code: "uncertain",
		fault: "the same", setting: "a fleet, writers with `WaitReplicas: 1`",
		sees: "writes that no replica has wait, and are `uncertain` after 5 s or at the end of their context: repeat them", do: "nothing. Workers need no `WaitReplicas`: their writes are acknowledgements",
	},
	{
		name: "split", play: lossSplit(), loses: late,
		fault: "the network splits for 4 s; the old master goes on with the writers on its side", setting: "Sentinels",
		sees: "nothing, until the network is whole and the old master becomes a replica", do: "`min-replicas-to-write`, or a fleet",
	},
	{
		name: "split-with-min-replicas", play: lossSplit("min-replicas-to-write", "1", "min-replicas-max-lag", "1"), loses: late,
		fault: "the same", setting: "Sentinels, `min-replicas-to-write 1`, `min-replicas-max-lag 1`",
		sees: "after a second or two writes wait, and are `unavailable`", do: "a small `min-replicas-max-lag`, or a fleet",
	},
	{
		name: "fleet-split", play: lossFleetSplit(0), loses: late,
		fault: "the same, without the directory", setting: "a fleet",
		sees: "after `view-life`, 1 s, the old master's clients do not write", do: "`WaitReplicas: 1`",
	},
	{
		name: "fleet-split-with-wait-replicas", play: lossFleetSplit(1),
		fault: "the same", setting: "a fleet, writers with `WaitReplicas: 1`",
		sees: "the same", do: "nothing",
	},
	{
		name: "full-memory", play: lossFullMemory, code: "full",
		fault: "memory is full", setting: "`maxmemory-policy noeviction`",
		sees: "writes are `full`. Workers go on", do: "let them drain, or raise `maxmemory`",
	},
	{
		name: "evicted", play: lossEvicted, loses: waiting,
		fault: "a cache takes all memory while a queue stands still", setting: "`allkeys-lru`",
		sees: "calls are `broken`, or the queue is empty", do: "never use it: `millrace doctor` says so before anything is lost",
	},
	{
		name: "evicted-volatile", play: lossVolatile,
		fault: "the same, and its keys have TTLs", setting: "`volatile-lru`",
		sees: "nothing", do: "nothing. Counters over several servers need `noeviction`",
	},
	{
		name: "policy-changed", play: lossPolicyChanged,
		fault: "`CONFIG SET maxmemory-policy allkeys-lru`, for a moment", setting: "any",
		sees: "leases, hashes and values are refused: `evictable`. A queue does not check", do: "set it back. `millrace doctor` fails meanwhile",
	},
	{
		name: "flushall", play: lossFlushall, loses: waiting, code: "stale",
		fault: "`FLUSHALL`", setting: "any",
		sees: "the queue is empty, and work in flight `stale`. A lease gets a second holder", do: "refuse it to users ([SECURITY](SECURITY.md)); [restore](OPERATIONS.md#backups-and-restoring)",
	},
	{
		name: "deleted-key", play: lossDeletedKey, loses: waiting, code: "broken",
		fault: "`DEL` of a queue's key `:hot`", setting: "any",
		sees: "calls are `broken` until the queue is deleted", do: "restore the key, or `millrace queue rm`",
	},
	{
		name: "restored-dump", play: lossRestoredDump, loses: late,
		fault: "an old dump is restored", setting: "any",
		sees: "messages acknowledged since come again, newer ones are gone", do: "write again what must not be lost: [what to do](OPERATIONS.md#backups-and-restoring)",
	},
	{
		name: "deleted-queue", play: lossDeletedQueue, loses: waiting, code: "stale",
		fault: "`millrace queue rm`, which asks first", setting: "any",
		sees: "the queue is empty, and work in flight `stale`", do: "pause a queue instead",
	},
	{
		name: "purged", play: lossPurged, loses: waiting,
		fault: "dead letters are purged", setting: "any",
		sees: "nothing. One that was redriven before is handled", do: "look at them first: `millrace queue dead ls`",
	},
	{
		name: "script-flush", play: mistake(command("SCRIPT", "FLUSH")),
		fault: "`SCRIPT FLUSH`", setting: "any",
		sees: "nothing: scripts are sent again", do: "nothing",
	},
	{
		name: "clock-set-back", play: lossClockSetBack,
		fault: "the server's clock goes back by an hour", setting: "any",
		sees: "nothing: delayed messages and those in flight come as if it had not", do: "NTP",
	},
	{
		name: "clock-set-ahead", play: lossClockSetAhead, code: "stale",
		fault: "the server's clock goes ahead by an hour", setting: "any",
		sees: "work in flight goes to others, and its late acknowledgements are `stale`. Leases end early", do: "NTP",
	},
}
