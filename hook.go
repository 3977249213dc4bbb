package millrace

import (
	"context"
	"time"
)

// Hook observes structures. It is any value that implements some of the interfaces below, so a
// new interface breaks no hook. Hooks must be fast and safe for concurrent use.
type Hook any

// CallHook is called for each call to Redis: of a script, or of plain commands.
type CallHook interface {
	// OnCall is called before the call, which uses the returned context. The function, if not
	// nil, is called after it.
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
	// OnHandle is called before the handler, which gets the returned context. The function, if
	// not nil, is called after it with its error.
	OnHandle(ctx context.Context, work Handling) (context.Context, func(error))
}

// Handling is one run of a handler.
type Handling struct {
	Structure string        // the kind of structure: "ick"
	Key       string        // its base key
	Size      int           // the number of members or messages
	Age       time.Duration // how long the oldest of them has waited; negative if unknown

	// Only for messages of a queue; otherwise zero.
	Attempt int               // the number of this delivery, from 1 on
	Headers map[string]string // includes those of a CarryHook; do not change it
}

// ReadHook is called for messages that a program reads, instead of having a handler consume them.
type ReadHook interface {
	// OnRead is called after the read. The work has its Size and Age alone.
	OnRead(ctx context.Context, work Handling)
}

// RecruitHook is called at the end of each recruit: the slices of a [Job] that a worker ran in one idle moment. Package steal
// recruits workers.
type RecruitHook interface {
	OnRecruit(ctx context.Context, end Recruited)
}

// Recruited is how one recruit ended.
type Recruited struct {
	Job     string        // the job's name
	Floor   bool          // the job was overdue; else an idle moment drew it
	Outcome string        // one of the outcomes of package steal: "worked"
	Rounds  int           // slices that returned; 0 if none ran
	Took    time.Duration // all rounds together
	Err     error         // of a slice that failed; nil if none did
}

// CarryHook is called for each message before it is written. It may add headers, such as
// the context of a trace.
type CarryHook interface {
	// OnWrite is called before the message goes to Redis and may add headers.
	OnWrite(ctx context.Context, headers map[string]string)
}
