package millrace

import (
	"context"
	"time"
)

// Hook observes structures. It is any value that implements some of the one-method
// interfaces below, so a new interface breaks no hook. Hooks run on the hot path and must
// be fast and safe for concurrent use.
type Hook any

// CallHook is called for each call to Redis: of a script, or of plain commands in its place.
type CallHook interface {
	// OnCall is called before the call. The context it returns is used for the
	// call, and the function, if not nil, is called when it has ended.
	OnCall(ctx context.Context, call Call) (context.Context, func(error))
}

// Call is one call.
type Call struct {
	Script string // the name of the script, or of what the commands do: "ick.add"
	Key    string // the structure's base key
	Try    int    // 1 for the first try, more when the library repeats the call
}

// HandleHook is called for each run of a handler.
type HandleHook interface {
	// OnHandle is called before the handler. The context it returns is handed
	// to the handler, and the function, if not nil, is called with the
	// handler's error when it has returned.
	OnHandle(ctx context.Context, work Handling) (context.Context, func(error))
}

// Handling is one run of a handler.
type Handling struct {
	Structure string        // the kind of structure: "ick"
	Key       string        // its base key
	Size      int           // how many members or messages the handler was given
	Age       time.Duration // how long the oldest of them has waited; negative when unknown

	// Of a single message, where the structure has them; else zero.
	Attempt int               // the number of this delivery, from 1 on
	Headers map[string]string // what a CarryHook put there, among others; not to be changed
}

// HangHook is called for each handler that ran for so long that another message got its
// slot.
type HangHook interface {
	// OnHang is called while the handler still runs.
	OnHang(ctx context.Context, work Handling)
}

// CarryHook is called for each message before it is written. It may add headers, such as
// the context of a trace.
type CarryHook interface {
	// OnWrite is called before the message goes to Redis and may add headers.
	OnWrite(ctx context.Context, headers map[string]string)
}
