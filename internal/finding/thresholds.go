package finding

import "time"

// Queues.
const (
	// UnreadAge is how long messages wait for a reader: pages and metrics notice it in half a minute.
	UnreadAge = 10 * time.Second

	// AbandonedAge is for how long no reader takes messages that another one has abandoned. One
	// that is not known to the queue may be about to.
	AbandonedAge = time.Minute

	// ReaderSilentAge is when a reader has vanished: it reports every 5 seconds.
	ReaderSilentAge = 8 * time.Second

	// FloodMessages is how many messages are a flood, if they are more than one in FloodShare of
	// all that wait: below it they are gone before a person has looked.
	FloodMessages = 100

	// FloodShare is one in how many of the waiting messages a flood has at least.
	FloodShare = 2

	// OthersWaitAge is how long messages of other tenants wait before a tenant is the cause.
	OthersWaitAge = time.Second

	// SlowHandling is from when on handlers are slow, if they are one in SlowShare of all.
	SlowHandling = 500 * time.Millisecond

	// QuickHandling is the time of handlers that are slow if their tenant is held: the queue holds
	// quicker ones only at a limit.
	QuickHandling = 20 * time.Millisecond

	// SlowShare is one in how many of the handlers slow ones are at least.
	SlowShare = 3

	// OldAge is the age of a message or a mark that needs attention with any cause, and of a
	// pause of a queue that may be forgotten.
	OldAge = 5 * time.Minute

	// ScheduleLateAge is how late a tick may be, besides its jitter. Stats of a queue count with the
	// same number: later ones are missed.
	ScheduleLateAge = time.Minute

	// TenantPausedAge is how long messages of a paused tenant wait until the pause may be
	// forgotten: a tenant is often paused for a day's work.
	TenantPausedAge = 24 * time.Hour

	// FailingAge is for how long after its last failure a tenant fails. Stats of a queue count with the same number.
	FailingAge = 10 * time.Minute

	// FailingCount is how many deliveries of a tenant fail before that is noticed.
	FailingCount = 10

	// FailingRate is how many of them fail a minute at least.
	FailingRate = 1
)

// Other structures.
const (
	// OverdueAge is how long entries may be overdue: upkeep collects them within seconds.
	OverdueAge = time.Minute

	// LeaseEndsAge is the time that is left of a lease which its holder should have refreshed.
	LeaseEndsAge = 5 * time.Second

	// NumbersOldAge is the age of old numbers on a page: surveys are at most 5 seconds apart.
	NumbersOldAge = 15 * time.Second

	// NoAnswerAge is how long a terminal waits for Redis before it says so.
	NoAnswerAge = 2 * time.Second
)

// Servers.
const (
	// OldestMajor is the first number of the oldest version of Redis: scripts need its commands.
	OldestMajor = 6

	// OldestMinor is the second number of that version.
	OldestMinor = 2

	// FullShare is the used share of maxmemory, or of a server's one thread, at which to act: what
	// is left is needed when consumers stop for a while.
	FullShare = 0.8

	// MemberFullShare is FullShare for the memory of a member of a fleet. A partition fills to 80 % by
	// design, unless max-fill says otherwise, and then sends new tags elsewhere: it is as it should be.
	MemberFullShare = 0.9

	// ClockSkew is by how much clocks may differ: scores, deadlines and leases are off by as much.
	ClockSkew = time.Second

	// ConnectionRate is new connections a second at which they cost as much as the work. Flite's
	// server was at its end with 500.
	ConnectionRate = 100

	// SlowCommand is how long one command may keep all others waiting.
	SlowCommand = 100 * time.Millisecond

	// SlowLogAge is how long a slow command matters.
	SlowLogAge = time.Hour

	// ReplicaLag is for how many seconds a replica may acknowledge nothing. It does each second.
	ReplicaLag = 5
)

// Settings of a fleet's members.
const (
	// ReplicaBuffer is the least client-output-buffer-limit for replicas, in bytes, under load.
	ReplicaBuffer = 64 << 20

	// Backlog is the least repl-backlog-size, in bytes: what a short break of a link leaves.
	Backlog = 1 << 20

	// IdleTimeout is the least timeout, in seconds: a client sends something every few seconds.
	IdleTimeout = 30

	// ReplicaMaxLag is the most min-replicas-max-lag, in seconds: the fence of a master that was
	// cut off counts with it (docs/FLEET.md).
	ReplicaMaxLag = 2
)

// A fleet as a whole.
const (
	// SnapshotAge is from when on a snapshot is too old, by default: a day's writes are lost with
	// all members of its partition.
	SnapshotAge = 24 * time.Hour

	// UnevenShare is the part of an even number of masters that one node may have more.
	UnevenShare = 4

	// DirectorySpace is the least memory, in bytes, that a directory in Redis has left: more than
	// a map grows by.
	DirectorySpace = 16 << 20

	// LongElection is three election timeouts of etcd, by the default of a second: it does not
	// tell its own. A fleet whose view ends earlier is read-only in each election.
	LongElection = 3 * time.Second

	// EtcdMembers is how many members let etcd lose one.
	EtcdMembers = 3
)
