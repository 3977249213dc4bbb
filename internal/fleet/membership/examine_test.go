package membership

import "testing"

// TestOlder compares versions whose snapshots may differ in format.
func TestOlder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		version, than string
		want          bool
	}{
		{"7.0.15", "7.0.16", false},
		{"7.0.15", "7.2.0", true},
		{"7.2.4", "7.0.15", false},
		{"6.2.14", "7.0.0", true},
		{"7.10.0", "7.9.0", false},
		{"7.9.0", "7.10.0", true},
		{"valkey 8.0.1", "valkey 8.1.0", true},
		{"valkey 8.1.0", "7.0.15", false},
		{"7.0.15", "valkey 8.1.0", false},
	} {
		if got := older(tc.version, tc.than); got != tc.want {
			t.Errorf("older(%q, %q) = %v, want %v", tc.version, tc.than, got, tc.want)
		}
	}
}
