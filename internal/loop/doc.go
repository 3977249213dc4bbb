// Package loop is the one consume loop that every consumer of Millrace runs in.
//
// A consumer fetches work, handles it, and looks for more; when there is none it
// waits; when something fails it backs off and tries again. That is the same for
// a dirty list and for a queue, and so are its traps: a server that restarts
// must not end it, a handler that panics must not take the process along, a log
// must not fill up while a server is away.
//
//	  ┌──────── worked ────────┐
//	  ▼                        │
//	step ─────────────────────▶┤
//	  ▲   idle ──▶ wait ──────▶┤
//	  └── error ──▶ back off ──┘
//
// [Run] ends when its context does, or on an error that its owner calls
// permanent: one that no repeat can mend.
package loop
