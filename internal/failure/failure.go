// Package failure is how a handler of an Ick reports which members of its batch failed. It is shared
// by packages ick and millracetest.
package failure

// Error names members that failed for one reason.
type Error struct {
	Reason  error // may be nil
	Members []string
}

// Error returns the reason.
func (e *Error) Error() string {
	if e.Reason == nil {
		return "the handler gave no reason"
	}
	return e.Reason.Error()
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Reason }

// Named returns the members that err names, with the reason: the text of the outermost error
// that is about them alone.
func Named(err error) map[string]string {
	named := make(map[string]string)
	var walk func(err error, reason string)
	walk = func(err error, reason string) {
		switch e := err.(type) { //nolint:errorlint // it walks the tree itself
		case *Error:
			for _, m := range e.Members {
				named[m] = reason
			}
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				walk(inner, inner.Error())
			}
		case interface{ Unwrap() error }:
			walk(e.Unwrap(), reason)
		}
	}
	if err != nil {
		walk(err, err.Error())
	}
	return named
}
