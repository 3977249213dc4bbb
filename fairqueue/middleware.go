package fairqueue

import "slices"

// Chain returns the handler inside the middleware. The first middleware is the outermost: it sees
// a message first and its result last. A panic passes through all of them to Consume, which
// counts it as an error; defer code that must run in spite of it.
//
// Middleware wraps a handler: it runs code before and after it, changes its context or its
// error, or does not call it. Its result decides what happens to the message, like that of a
// [Handler].
//
// A [millrace.Hook] only observes. Use a hook for metrics, traces and the like, which many
// structures and programs share: it also sees the calls to Redis, panics, and handlers that exceed
// MaxRun. Use middleware for one program's own work.
//
// Package ick has no Chain: its handler gets a batch and reports which members failed, so a
// wrapper that does not know the work has little to decide. An ordinary function around it does.
func Chain(handler Handler, middleware ...func(Handler) Handler) Handler {
	for _, wrap := range slices.Backward(middleware) {
		handler = wrap(handler)
	}
	return handler
}
