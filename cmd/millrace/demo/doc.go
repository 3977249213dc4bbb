// Package demo is Millrace's main job in one command: every structure at work
// on a realistic load, with the accidents that it is there for, and a proof at
// the end that it kept its promise.
//
// A [Run] gets a server, plays its scenes one after the other, and reports. A
// scene is one structure's story: load from this process, for most workers in child
// processes, the accident that it is there for, figures, and checks that compare
// what the structure says with what the scene itself knows.
//
//	Run ──▶ server ──▶ scene: load, kills ──▶ drain ──▶ checks ──▶ clean up ──▶ Report
//	                     │  ▲
//	              task   ▼  │ reports, one line of JSON each
//	                   child processes, the same binary
//
//	scene     children         accident             what is shown
//	ick       consumers        they are killed      no change is forgotten
//	steal     web servers      nobody does upkeep   their requests do
//	expiry    web servers      fields expire        none is read after its time,
//	                                                and those who read remove them
//	lease     a second holder  memory is full       it gets no lease
//	queue     workers          they are killed,     no tenant waits behind one that
//	                           a tenant is slow     floods or is slow, and nothing
//	                                                is stranded
//	fleet     none             a partition is       no data moves, nothing is lost,
//	                           added                no name has two places
//	failover  none             a master is killed,  writes go on by themselves, and
//	                           another is frozen    what was confirmed is there
//
// # Children
//
// Workers are the program's own binary, started again with a hidden first
// argument. So a program that runs demos, and the TestMain of this package,
// call [Child] before anything else:
//
//	if code, ok := demo.Child(ctx, os.Args[1:]); ok {
//		os.Exit(code)
//	}
//
// A child gets its task, and with it the server's address, as the first line
// of its standard input: arguments and environments are for everybody to read,
// and an address may hold a password. It ends when its standard input does, so
// it never outlives its parent; on Linux the kernel kills it even if it hangs.
//
// # Whose server
//
// Without Config.Redis the demo has a server of its own, which ends with it,
// and nothing survives. With Config.Redis it works under a random name ("demo-...",
// "{demo-...}:...", "mr:queue:{demo-...}..." and "mr:hash:{demo-.../0}...") and
// deletes what it wrote, also when it is cancelled or fails. A program that is
// killed cannot delete: such keys stay, and the start of each scene's progress
// tells the name.
//
// A demo never harms a server that it did not start: it fills no memory there,
// changes no setting, and removes nothing that it did not write. So the lease
// scene starts a server of its own in any case, and the scenes fleet and failover a
// fleet each; they are skipped where there is no binary to start. The queue scene and
// the expiry scene are skipped on an imitation of a server.
//
// # Another scene
//
// Each scene has a file with a function that returns a scene value; the list in
// scene.go has them in the order they are played. All together may take 40 s.
package demo
