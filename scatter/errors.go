package scatter

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/retry"
)

// Errors of this package. What is returned is derived from them and says more.
var (
	// ErrName means that a name cannot be had. Nobody was asked.
	ErrName = &millrace.Error{
		Code: "bad_name",
		Hint: "Use 1 to 512 bytes without control characters, and for a group without braces.",
	}

	// ErrConfig means that a setting or an argument cannot be had. Nobody was asked.
	ErrConfig = &millrace.Error{Code: "bad_argument"}

	// ErrPartial means that some servers did not answer. What the others have is in
	// the result all the same; the error is a [*PartialError], which names them.
	ErrPartial = &millrace.Error{
		Code:    "partial",
		Message: "some servers did not answer, and what they have is missing",
		Hint:    "Read again when they are back, or take the value for what it is: at least so much of it as the others have.",
	}

	// ErrType means that a key holds something else than it is used for.
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

	// ErrTooMany means that a set, or a sorted set, has more members than a gather may
	// hold.
	ErrTooMany = &millrace.Error{
		Code:    "too_many",
		Message: "there are more members than a gather may hold",
		Hint:    "Raise Config.MaxMembers, or count by time buckets.",
	}

	// ErrVersion means that the side keys are of a version that this one does not know.
	ErrVersion = &millrace.Error{
		Code:    "unknown_version",
		Message: "the group was written in another version",
		Hint:    "Use the newer of the two programs everywhere.",
	}
)

// errSilent is why a call ends whose server took longer than Config.Timeout.
var errSilent = fmt.Errorf("no answer within Config.Timeout: %w", context.DeadlineExceeded)

// explain turns what a script answers with into an error of this package.
func explain(err error) error {
	reply, refused := rueidis.IsRedisErr(err)
	if !refused || errors.Is(err, millrace.ErrFull) {
		return err
	}
	_, about, _ := strings.Cut(reply.Error(), " ")
	switch {
	case retry.Code(err, "WRONGTYPE"):
		return ErrType.With(err)
	case retry.Code(err, "SCATTERTYPE"):
		return ErrType.Saying("the key %q holds something else", about)
	case retry.Code(err, "SCATTEROVERFLOW"):
		return ErrOverflow.Saying("the sum of %q does not fit into 64 bits", about)
	case retry.Code(err, "SCATTERVERSION"):
		return ErrVersion.Saying("the group was written in version %s", about)
	}
	return err
}
