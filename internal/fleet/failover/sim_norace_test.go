//go:build !race

package failover_test

// slow is by how much less is tried than in a soak's round.
const slow = 5
