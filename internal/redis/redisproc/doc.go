// Package redisproc runs real redis-server processes as children of this process.
//
// # The problem
//
// A program that wants a temporary Redis (a test, a demo, a local fleet) needs a server that
// is ready when the caller continues, and that never outlives the program. A forgotten
// deferred call, a panic in another goroutine, os.Exit, a test timeout and a SIGKILL all
// skip clean-up code, so clean-up code alone is not enough.
//
// # The mechanism
//
// Start makes a private folder, starts the server on a unix socket in it and returns when
// the server answers, about 10 ms later:
//
//	        Start                    Kill, a crash
//	(none) -------> running ------------------------> dead
//	                 |   ^ \ Pause                      |
//	                 |   |  `------> stopped by SIGSTOP |
//	                 |   |  <------'  Resume            |
//	                 |   |                              |
//	                 |   +-------- Restart -------------+
//	            Stop |                                  | Stop
//	                 +-------------> (gone) <-----------+
//
// # Guarantees
//
// On Linux the kernel kills the server when this process ends, however it ends: the child
// is started with a parent-death signal. That signal is tied to the thread that called
// fork, not to the process. So one goroutine, locked to its thread, starts the child and
// waits for its end.
//
// A server listens on a socket that only this user may open, or on 127.0.0.1 if the Config
// asks for TCP. Only processes started here are ever signalled.
//
// # The wrinkle
//
// Other unixes have no parent-death signal: a program that dies without calling Stop leaves
// its server running. On every system it leaves the server's temporary folder behind.
//
// # When not to use it
//
// Never for data that matters: by default nothing is written to disk, and Config.AOF
// survives the death of the process but not of the machine.
package redisproc
