// Bench measures Millrace, each figure against a baseline in the same run.
//
//	go run . [--redis URL] [--rounds 5] [--time 1s] [--only NAME]
//
// A row has sides: what is measured, and what it is measured against, such as
// the bare Redis commands without which it cannot be had. A round runs each side
// of a row once, in turn, so that a machine whose speed drifts slows all of them.
// The table shows the median of each side over the rounds and the median of the
// ratios, round by round, next to the goal: a ratio to reach, or where the work has
// a price of its own, a figure. A row without a goal is there to be known. Speeds
// are better when they are larger, times and allocations when they are smaller.
//
// Without --redis it starts a private redis-server on a unix socket, without
// persistence.
package main
