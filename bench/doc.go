// Bench measures Millrace, each figure against a baseline in the same run.
//
//	go run . [--redis URL] [--rounds 5] [--time 1s] [--only NAME]
//
// It measures what `millrace bench` measures, which package cmd/millrace/bench tells
// about, and what cannot be measured on a server that is in use: beside asynq, which
// no program of ours depends on, and with servers of its own, which it kills, grows,
// has save, or puts at a distance. A name is part of what the table says.
//
// The table shows the median of each side over the rounds and the median of the
// ratios, round by round, next to the goal: a ratio to reach, or where the work has
// a price of its own, a figure. A figure without a goal is there to be known. Rates
// are better when they are larger, times and counts when they are smaller.
//
// Without --redis it starts a private redis-server on a unix socket, without
// persistence. With it, figures that need no server of their own are measured there,
// and what they write is deleted.
package main
