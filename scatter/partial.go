package scatter

import (
	"fmt"
	"strings"
)

// PartialError says which servers did not answer, and why. errors.Is finds
// [millrace.ErrPartial] in it, and what each of the servers failed with.
type PartialError struct {
	// Servers is how many servers there are, and Answered how many of them answered.
	Servers, Answered int

	// Missing are the names of the others, in the order of the group.
	Missing []string

	// Errs are what those failed with, in the order of Missing.
	Errs []error
}

// partial returns a *PartialError if any of the servers failed. The errors are those of
// the servers, in their order, nil for one that answered.
func partial(servers []*server, errs []error) error {
	e := &PartialError{Servers: len(servers)}
	for i, srv := range servers {
		if errs[i] == nil {
			e.Answered++
			continue
		}
		e.Missing = append(e.Missing, srv.Name)
		e.Errs = append(e.Errs, errs[i])
	}
	if len(e.Missing) == 0 {
		return nil
	}
	return e
}

// Error names the servers that did not answer, and says what the first one failed with.
func (e *PartialError) Error() string {
	return fmt.Sprintf("%d of %d servers did not answer (%s), and what they have is missing: %v",
		len(e.Missing), e.Servers, strings.Join(e.Missing, ", "), e.Errs[0])
}

// Unwrap returns [millrace.ErrPartial] and what each of the servers failed with.
func (e *PartialError) Unwrap() []error {
	return append([]error{errPartial}, e.Errs...)
}
