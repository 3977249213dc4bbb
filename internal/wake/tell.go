package wake

import (
	"context"
	"embed"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K:")

// tellTimeout bounds a wake-up, which nobody needs later.
const tellTimeout = time.Second

// tellWait is for how long [Hub.Wake] waits for servers: so that a program which ends
// then has told them, and one that is silent keeps nobody.
const tellWait = 50 * time.Millisecond

// Wake wakes who waits for a name in processes, by their ids. It is a call of its own and not
// part of the script that made work available: the list of a process may lie on another
// server. It is best effort, also when ctx has ended, and goes on in the background where a
// server takes long.
func (h *Hub) Wake(ctx context.Context, name string, processes []string) {
	ctx, cancel := script.Within(context.WithoutCancel(ctx), tellTimeout)
	run := script.Runner{Client: h.client, Scripts: library, Retry: retry.Policy{Patience: tellTimeout}}
	var telling sync.WaitGroup
	told := make(chan struct{})
	for _, id := range processes {
		if id == h.id {
			h.deliver(name)
			continue
		}
		telling.Go(func() { _, _ = run.Run(ctx, "tell", listKey(id), name) }) // waiters look again by themselves
	}
	go func() {
		telling.Wait()
		cancel()
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(tellWait):
	}
}
