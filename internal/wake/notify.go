package wake

import (
	"context"
	"embed"
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
	run := script.Runner{Client: client, Scripts: library, Retry: retry.Policy{Patience: notifyTimeout}}
	_, _ = run.Run(ctx, "notify", key) // waiters look again by themselves
}
