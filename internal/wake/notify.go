package wake

import (
	"context"
	"embed"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K:")

// notifyTimeout bounds a wake-up, which nobody needs later.
const notifyTimeout = time.Second

// Notify pushes a token unless one lies there, for who cannot push it in the script that
// made work available: a wake key comes and goes, and on a Cluster such a key would keep
// the script off a slot that moves. It is best effort, also when ctx has ended.
func Notify(ctx context.Context, client rueidis.Client, key string) {
	ctx, cancel := script.Within(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	_ = push(ctx, client, "notify", key) // waiters look again by themselves
}

func push(ctx context.Context, client rueidis.Client, name, key string, args ...string) error {
	run := script.Runner{Client: client, Scripts: library, Retry: retry.Policy{Patience: notifyTimeout}}
	_, err := run.Run(ctx, name, key, args...)
	return err
}

// tellWait is for how long [Hub.Wake] waits for servers: so that a program which ends
// then has told them, and one that is silent keeps nobody.
const tellWait = 50 * time.Millisecond

// Wake wakes who waits for a name in processes, by their ids. It is best effort, also when
// ctx has ended, and goes on in the background where a server takes long.
func (h *Hub) Wake(ctx context.Context, name string, processes []string) {
	ctx, cancel := script.Within(context.WithoutCancel(ctx), notifyTimeout)
	var telling sync.WaitGroup
	told := make(chan struct{})
	for _, id := range processes {
		if id == h.id {
			h.deliver(name)
			continue
		}
		telling.Go(func() { _ = push(ctx, h.client, "tell", listKey(id), name) }) // waiters look again by themselves
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
