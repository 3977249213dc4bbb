// Package dial opens clients for the structures by URL.
//
// # The problem
//
// Every structure takes a rueidis.Client, and rueidis has some fifty options. A few of them matter to
// structures: with the wrong ones, a cancelled call waits for a server that hangs, or a user
// with few permissions cannot connect. And the errors of a client that cannot connect give the
// network's message, and no advice.
//
// # The mechanism
//
// One grammar of URLs is for programs, the command and the service:
//
//	redis://USER:PASSWORD@HOST:PORT/DB        one server, or a seed of a cluster
//	rediss://HOST:PORT                        the same over TLS
//	redis://HOST:PORT?addr=HOST2:PORT2        several seeds of a Redis Cluster
//	redis://HOST:PORT?addr=...&master_set=M   sentinels that watch M
//	unix:///path/to/socket, unix:/path/to/socket
//
// [Redis] connects, with the options that structures want; [Options] has them. [With] is for
// programs that have options and no URL, as those that use go-redis elsewhere: docs/GOREDIS.md
// maps its options field by field.
//
// # Guarantees
//
// Errors have a code and a hint, and never show a password. A call whose context ends returns at once.
//
// # The wrinkle
//
// fleet://HOST:PORT and etcd://HOST:PORT are refused: fleet.Dial and etcd.Dial of package
// fleet/etcd open those, so that programs without a fleet build nothing of it. The root
// package has no Dial either: every package imports it, and steal, which imports it too, works
// without Redis.
//
// # When not to use it
//
// A program that already has a rueidis.Client gives that to the structures.
package dial
