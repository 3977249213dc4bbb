package plan_test

import (
	"errors"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/plan"
	"github.com/millrace/millrace/ring"
)

// checkRefusal checks that err is an ErrBadArgument with the message and a hint.
func checkRefusal(t *testing.T, err error, message string) {
	t.Helper()
	if !errors.Is(err, millrace.ErrBadArgument) || err.Error() != message {
		t.Errorf("error = %v, want %q", err, message)
	}
	if got, want := millrace.Code(err), "bad_argument"; got != want {
		t.Errorf("code = %q, want %q", got, want)
	}
	if millrace.Hint(err) == "" {
		t.Errorf("%v has no hint", err)
	}
}

func TestMaxPartitions(t *testing.T) {
	t.Parallel()
	// One partition with so many points is made sooner than so many partitions.
	if _, err := ring.New(plan.MaxPartitions); err != nil {
		t.Errorf("a ring of MaxPartitions: %v", err)
	}
	if _, err := ring.New(plan.MaxPartitions + 1); err == nil {
		t.Error("a ring has room for more than MaxPartitions")
	}
}
