// Package connect turns the text a user typed into a client.
//
// Every command and the server take one Redis URL. What it may name:
//
//	redis://USER:PASSWORD@HOST:PORT/DB        one server, or a seed of a cluster
//	rediss://HOST:PORT                        the same over TLS
//	redis://HOST:PORT?addr=HOST2:PORT2        several seeds of a Redis Cluster
//	redis://HOST:PORT?addr=...&master_set=M   sentinels that watch M
//	unix:///path/to/socket, unix:/path/to/socket
//
// Open makes the client, or says what is wrong in words that name the URL
// without its password and end with what to try. It refuses fleet://HOST:PORT,
// which names many servers: package fleet opens that.
//
// Embedded is for programs that were given no URL and may run on data that
// without data to lose: it starts a private redis-server, or, where none is
// installed, miniredis inside the process.
//
//	a redis-server on PATH?  --yes-->  redisproc: unix socket, temporary folder
//	         |
//	         no
//	         v
//	miniredis in this process, on a port of 127.0.0.1
//
// # The wrinkle
//
// miniredis is a close imitation, not Redis: it has no memory limit, no
// persistence, and smaller tables in Lua. Callers tell the user which of the
// two they got, from Instance.Kind.
package connect
