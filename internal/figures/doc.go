// Package figures turns the Stats of structures into Prometheus metrics.
//
// # The problem
//
// A program that exports one queue should not compile all structures and the fleet. So no
// package can know the figures of all structures. Yet their metrics must look alike, for one
// structure that a program registers and for the many that the service finds.
//
// # The mechanism
//
// A [Family] is the metrics of one kind of structure: a list of [Figure], each a name and a
// function of Stats. [Of] collects one structure, and reads it at each scrape. [Many] collects
// structures that its caller has read. The packages below observe/metrics have one Family each.
package figures
