package fairqueue

import "slices"

// Middleware wraps a handler: it runs code before and after it, changes its context or its
// error, or does not call it. To wrap means that it decides what happens to the message: its
// result is that of a [Handler].
//
// A [millrace.Hook] only observes. Use a hook for what many structures and programs share, such
// as metrics and traces: it also sees the calls to Redis, panics, and handlers that exceed
// MaxRun. Use middleware for what one program does around its work.
//
// Package ick has no Middleware: its handler gets a batch and reports which members failed, so a
// wrapper that does not know the work has little to decide. An ordinary function around it does.
type Middleware func(Handler) Handler

// Chain returns the handler inside the middleware. The first middleware is the outermost: it sees
// a message first and its result last. A panic passes through all of them to Consume, which
// counts it as an error; defer what must run in spite of it.
func Chain(handler Handler, middleware ...Middleware) Handler {
	for _, wrap := range slices.Backward(middleware) {
		handler = wrap(handler)
	}
	return handler
}
