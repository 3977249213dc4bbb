// Package redisproc runs real redis-server processes as children of this
// process.
//
// A program that wants a throw-away Redis (a test, a demo, a local fleet) has
// two things to get right: the server must be ready when the caller goes on,
// and it must never outlive the program. A forgotten deferred call, a panic in
// another goroutine, os.Exit, a test timeout and a SIGKILL all skip clean-up
// code, so clean-up code alone is not enough.
//
// Start makes a private folder, starts the server on a unix socket in it and
// returns when the server answers PING, about 10 ms later:
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
// On Linux the kernel kills the server when this process ends, however it
// ends: the child is started with a parent-death signal. That signal is tied
// to the thread that called fork, not to the process, so one goroutine, locked
// to its thread, starts the child and stays until the child has been waited
// for.
//
// A server listens on a socket that only this user may open, or on 127.0.0.1
// when Config.Port or Config.TCP asks for TCP. Only processes started here are
// ever signalled.
//
// # The wrinkle
//
// Other unixes have no parent-death signal: there, a program that dies without
// calling Stop leaves its server running. On every system a program that dies
// without calling Stop leaves the server's folder behind in the system's
// folder for temporary files.
//
// # When not to use it
//
// Never for data that matters: with the zero Config nothing is written to
// disk, and Config.AOF survives the death of the process but not of the
// machine.
package redisproc
