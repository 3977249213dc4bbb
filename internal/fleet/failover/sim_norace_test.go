//go:build !race

package failover_test

// slow is by how much less is tried: nothing takes longer than usual.
const slow = 1
