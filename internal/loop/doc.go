// Package loop is the loop of all consumers: of dirty lists and of queues.
//
//	  ┌──────── worked ────────┐
//	  ▼                        │
//	step ─────────────────────▶┤
//	  ▲   idle ──▶ wait ──────▶┤
//	  └── error ──▶ back off ──┘
//
// A restart of the server does not end it, a panic of a handler does not end the process, and
// an outage does not fill the log. [Run] ends with its context, or with a permanent error.
package loop
