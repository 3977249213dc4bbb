package scatter

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace"
)

// Returned errors are derived from these and say more.
var (
	// ErrType means that the key holds another type.
	ErrType = &millrace.Error{
		Code:    "wrong_type",
		Message: "the key holds something else",
		Hint:    "Use a name that nothing else uses.",
	}

	// ErrOverflow means that a sum does not fit into 64 bits.
	ErrOverflow = &millrace.Error{
		Code:    "overflow",
		Message: "the sum does not fit into 64 bits",
		Hint:    "Count by time buckets, or under another name.",
	}
)

var (
	errName = millrace.ErrBadName.WithHint("Use 1 to 512 bytes without control characters, and without mr: in front; for a group without braces.")

	errTooMany = millrace.ErrTooLarge.WithHint("Raise Config.MaxMembers, or count by time buckets.")

	errPartial = millrace.ErrPartial.WithHint("Read again when they are back, or take the value for what it is: at least so much of it as the others have.")

	// errSilent ends a call to a server that exceeds Config.Timeout.
	errSilent = fmt.Errorf("no answer within Config.Timeout: %w", context.DeadlineExceeded)
)

var refusals = map[string]*millrace.Error{"TYPE": ErrType, "OVERFLOW": ErrOverflow}

// causes are the errors of several servers. The text is that of the first.
type causes []error

func (c causes) Error() string { return c[0].Error() }

func (c causes) Unwrap() []error { return c }

// partial returns [millrace.ErrPartial] and the names of the servers that failed, or nothing.
// The errors are those of the servers, in their order.
func partial(servers []*server, errs []error) (missing []string, err error) {
	var failed causes
	for i, srv := range servers {
		if errs[i] != nil {
			missing, failed = append(missing, srv.Name), append(failed, errs[i])
		}
	}
	if len(failed) == 0 {
		return nil, nil
	}
	return missing, errPartial.Errorf("%d of %d servers did not answer (%s), and what they have is missing",
		len(missing), len(servers), strings.Join(missing, ", ")).Wrap(failed)
}
