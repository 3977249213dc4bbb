// Package must ends a measurement or a demo's scene at its first error, as Fatal ends a
// test: such code is a long list of steps that may all fail, and no step makes sense
// after one that failed.
//
//	func measure() (value float64, err error) {
//		defer must.Recover(&err)
//		client := must.Get(open())
//		must.Do(client.Write())
//		...
//
// Only the goroutine that defers [Recover] may call [Do] and [Get].
//
// It is the harness of figures, scenes and bench/compare: a [Stage] has what they start, a
// [Process] is a child, and there is one [Quantile].
package must

import "errors"

// failure carries an error to Recover.
type failure struct{ error }

// Do ends the caller if there is an error.
func Do(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Get returns v, or ends the caller if there is an error.
func Get[T any](v T, err error) T {
	Do(err)
	return v
}

// Recover is deferred. It joins the error that ended the caller to err. It passes on any
// other panic.
func Recover(err *error) {
	switch cause := recover().(type) {
	case nil:
	case failure:
		*err = errors.Join(*err, cause.error)
	default:
		panic(cause)
	}
}
