//go:build race

package failover_test

// slow is by how much less is tried when everything takes so much longer.
const slow = 20
