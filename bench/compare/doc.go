// Compare measures Millrace's queue beside the queues that a team might use instead:
// asynq, BullMQ, River, and a Redis stream by hand.
//
//	go run . [-only NAME] [-rounds 3] [-quick] [-json] [-write]
//
// Every system gets the same messages from a writer process and hands them to the same
// handler in worker processes. Writer and handler note each message in a file, with one
// system call per message, so that all systems are counted alike and nothing is lost when a
// process is killed. Servers are started for one measurement each: redis-server with an
// append-only file that is synced every second, PostgreSQL with its defaults.
//
// The measurements processes, processes-aof, one-process and steady tell the CPU time of a message,
// of the server and its clients: where 50 processes have connections of their own, where one process
// shares calls, and at a steady low rate. These servers keep nothing on disk, except for
// processes-aof.
//
// The measurements whose names begin with cost- are processes with one thing more each: cost-blocked, a tenant
// of which more messages wait than may start; cost-flight and cost-rate, a limit for all tenants that is never reached;
// cost-streams, streams instead of tenants; cost-long, many handlers of 5 s; cost-replica, a replica; and cost-file, an
// append-only file, by which it grows for a message. Each measures Millrace and asynq.
//
// The measurement instructions counts the instructions of redis-server for a message, in calls of 1, 8
// and 100. It needs valgrind, and is skipped without it.
//
// -only takes a part of the name of a system or of a measurement; several are separated by
// commas. -quick takes a tenth of the messages and one round. -json prints the figures, and -against
// compares them with those that -json printed at another commit.
// -write keeps them in results.json, beside those that were not measured this time, and
// writes docs/COMPARED.md and its two charts from that file.
//
// BullMQ needs node and npm, River needs PostgreSQL, Replicate's scripts need a folder with
// github.com/replicate/go, which MILLRACE_BENCH_REPLICATE names. A system that cannot be measured is
// named in the table, with the reason.
package main
