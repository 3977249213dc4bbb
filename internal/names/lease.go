package names

import (
	"time"

	"github.com/millrace/millrace"
)

// MinLeaseTTL and MaxLeaseTTL bound the TTL of a lease.
const (
	MinLeaseTTL = 10 * time.Millisecond
	MaxLeaseTTL = 366 * 24 * time.Hour
)

// CheckLease returns an error for an invalid name of a lease. The command calls it and the
// checks below before it connects.
func CheckLease(name string) error {
	return Check(millrace.ErrBadName, "name of a lease", name, 512)
}

// CheckLeaseToken returns an error for an invalid token.
func CheckLeaseToken(token string) error {
	const most = 64
	if len(token) == 0 || len(token) > most {
		return millrace.ErrBadArgument.Errorf("a token is 1 to %d bytes long, not %d", most, len(token))
	}
	return nil
}

// CheckLeaseTTL returns an error for an invalid TTL.
func CheckLeaseTTL(ttl time.Duration) error {
	if ttl < MinLeaseTTL || ttl > MaxLeaseTTL {
		return millrace.ErrBadArgument.Errorf("a lease lasts from %s to %s, not %s", MinLeaseTTL, MaxLeaseTTL, ttl)
	}
	return nil
}
