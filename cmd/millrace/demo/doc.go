// Package demo is Millrace's main job in one command: every structure at work
// on a realistic load, with the accidents that it is there for, and a proof at
// the end that it kept its promise.
//
// A [Run] gets a server, plays its scenes one after the other, and reports. A
// scene is one structure's story: producers in this process, workers in child
// processes that are really killed, figures, and checks that compare what the
// structure says with what the scene itself knows.
//
//	Run ──▶ server ──▶ scene: load, kills ──▶ drain ──▶ checks ──▶ clean up ──▶ Report
//	                     │  ▲
//	              task   ▼  │ reports, one line of JSON each
//	                   child processes, the same binary
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
// and nothing survives. With Config.Redis it works under a random prefix
// ("demo-..." and "{demo-...}:...") and deletes what it wrote, also when it is
// cancelled or fails. A program that is killed cannot delete: such a prefix
// stays, and the start of each scene's progress names it.
//
// A demo never harms a server that it did not start.
//
// # Another scene
//
// Each scene has a file that ends in a function returning a scene value; the
// list in scene.go has them in the order they are played.
package demo
