// Bench measures all figures: those of millrace bench, and those that start servers of their own.
// Package compare, beside it, measures the queue against those of others.
//
//	go run . [--redis URL] [--rounds 5] [--time 1s] [--only NAME]
//
// The name is part of a figure's title in the table. The table shows the median of each
// side over the rounds, the median of the rounds' ratios, and the goal: a bound of the
// ratio, or of the figure itself. Rates are better when they are larger, times and counts
// when they are smaller.
//
// Without --redis it starts a private redis-server on a unix socket, without persistence.
// With it, figures that need no server of their own are measured there, and their keys
// are deleted.
package main
