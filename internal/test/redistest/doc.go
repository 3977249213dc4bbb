// Package redistest gives tests real servers, and a network between client and
// server that fails on command.
//
// Millrace keeps its promises when replies are lost, servers die and masters change. A mock
// cannot show that, so tests run against real redis-server processes, which start in about
// 10 ms:
//
//	Shared       one server for the test binary; tests keep apart by Name
//	Start        a server of the test's own, to be killed, paused or filled
//	Replicated   a master and replicas
//	StartMachine a server whose machine may lose power, and whose clock may be set
//	Cluster      a Redis Cluster
//	Sentinels    a replicated master and three sentinels
//	NewProxy     a fault proxy before any of them
//
// A package that uses it has one line of set-up, which also looks for leaked
// goroutines:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
// # The fault proxy
//
// The worst fault for a write is a reply that is lost after the server did the work: the
// caller cannot know. DropReply causes it for the command that a test names:
//
//	client            proxy                server
//	  | -- EVALSHA ---> | ---- EVALSHA ----> |
//	  |                 | <------- 1 ------- |  it executed
//	  | <-- closed      | closed --> (cut)   |  no reply ever comes
//
// To know which reply belongs to which command among pipelined ones, pushes
// and subscriptions, the proxy reads both protocols frame by frame.
//
// # The server under test
//
// MILLRACE_TEST_SERVER names another server binary for everything here.
// Without a server a test is skipped, or fails when CI is set. Every server
// ends with its test, the shared one with Main; should the test binary die
// first, the kernel ends them (see package redisproc for where it does not).
package redistest
