// Package top is a live view of a Redis in a terminal: floods, slow tenants, and keys that
// stop them.
//
// Two halves know nothing of each other's work:
//
//	Redis ──▶ source.go ──▶ looked ──▶ model.go ──▶ view.go ──▶ terminal
//	              ▲                       ▲  │
//	              └── look, act ──────────┼──┘
//	                                keys ─┘
//
// The source asks Redis, in goroutines of the terminal library. The model is pure: its state
// and a message give its next state and commands, and its state gives the screen. So nothing
// on the screen ever waits for Redis: while it is silent, the numbers stay, and the first line
// says for how long.
//
// A look is one survey, which reads a bounded number of structures (see package survey). The
// next one begins an interval after it, and at least twice the time that it took.
//
// Rates are the difference of two looks' counters, by the server's clock.
//
// A question names its target when it is asked. The answer acts on that target, also if rows
// have moved since.
package top
