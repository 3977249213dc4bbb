// Package etcdtest runs real clusters of etcd for tests.
//
//	cluster := etcdtest.Start(t, etcdtest.Options{})
//	client := cluster.Members[0].Client(t)
//	cluster.Leader().Freeze()
//
// A member can be killed, frozen, restarted, and cut off from its peers, from its clients or
// from both. Everything that a member sends to a peer goes through a proxy of its own, and
// everything that clients send to it through another one: a cut is silence, as when a cable
// is pulled, and no connection is closed.
//
// Elections take half a second instead of the default's one to two.
//
// They run the version of etcd that the module in the folder server names, and not the system's:
// those of Debian 12 and 13 answer stale reads. The first test builds it, which takes about twenty
// seconds of CPU, and the result stays in Go's build cache. MILLRACE_TEST_ETCD names another one.
// Keep the versions in that module in step with the main one, so that packages of both are
// compiled once.
//
// Without etcd a test is skipped, or fails when CI is set.
package etcdtest
