// Package connect opens clients by URL.
//
// Every command and the server take one Redis URL:
//
//	redis://USER:PASSWORD@HOST:PORT/DB        one server, or a seed of a cluster
//	rediss://HOST:PORT                        the same over TLS
//	redis://HOST:PORT?addr=HOST2:PORT2        several seeds of a Redis Cluster
//	redis://HOST:PORT?addr=...&master_set=M   sentinels that watch M
//	unix:///path/to/socket, unix:/path/to/socket
//
// Errors of Open show the URL without its password and say what to try. It refuses
// fleet://HOST:PORT and etcd://HOST:PORT: packages fleet and fleet/etcd open those.
//
// Embedded is for programs without a URL and without data to lose: it starts a private
// redis-server in a temporary folder, or, where none is installed, miniredis inside the
// process.
//
// # The wrinkle
//
// miniredis imitates Redis: it has no memory limit, no persistence, and smaller tables in
// Lua. Instance.Kind tells the two apart; callers show it to the user.
package connect
