package rebalance

import (
	"flag"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) {
	// Most of the time these tests wait for the end of some period.
	_ = flag.Set("test.parallel", "6")
	redistest.Main(m)
}
