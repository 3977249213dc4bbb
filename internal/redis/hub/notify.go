package hub

import (
	"context"
	"embed"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K:")

const (
	// notifyTimeout bounds a wake-up.
	notifyTimeout = time.Second

	// notifyWait is how long [Hub.Wake] waits for servers: long enough for a program that
	// ends after it, and short if a server does not answer.
	notifyWait = 50 * time.Millisecond
)

// Wake wakes the waiters for a name in processes, by their ids. It is a call of its own, because
// the list of a process may lie on another server than the structure. It is best effort, works
// after ctx has ended, and continues in the background if a server is slow.
func (h *Hub) Wake(ctx context.Context, name string, processes []string) {
	ctx, cancel := script.Within(context.WithoutCancel(ctx), notifyTimeout)
	run := script.Runner{Client: h.client, Scripts: library, Retry: retry.Policy{Timeout: notifyTimeout}}
	var notifying sync.WaitGroup
	notified := make(chan struct{})
	for _, id := range processes {
		if id == h.id {
			h.deliver(name)
			continue
		}
		notifying.Go(func() { _, _ = run.Run(ctx, "notify", listKey(id), name) }) // waiters check again after their timeout
	}
	go func() {
		notifying.Wait()
		cancel()
		close(notified)
	}()
	select {
	case <-notified:
	case <-time.After(notifyWait):
	}
}
