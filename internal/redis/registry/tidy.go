package registry

import (
	"context"
	"embed"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

//go:embed *.lua
var folder embed.FS

// library holds the scripts of the registry.
var library = script.Load(folder, "K:")

const (
	// tidyRest is the pause between two rounds of the job, in each process.
	tidyRest = time.Minute

	// young is how long an entry stays in any case: its structure may be about to be created.
	young = time.Minute
)

// TidyJob returns the job that removes the entries of structures that are gone, up to 50 in
// a slice.
func TidyJob(client rueidis.Client) millrace.Job {
	t := &tidier{run: script.Runner{Client: client, Scripts: library}, visitor: NewVisitor(client, "", nil), rest: tidyRest}
	return millrace.Job{Name: "registry.tidy", Slice: t.slice}
}

// tidier removes entries.
type tidier struct {
	run     script.Runner
	visitor *Visitor
	rest    time.Duration

	mu    sync.Mutex
	rests time.Time // until when
}

func (t *tidier) slice(ctx context.Context) (millrace.Progress, error) {
	t.mu.Lock()
	resting := time.Now().Before(t.rests)
	t.mu.Unlock()
	if resting {
		return millrace.Idle, nil
	}
	progress, err := t.visitor.slice(ctx, t.visit)
	if progress != millrace.More {
		t.mu.Lock()
		t.rests = time.Now().Add(t.rest)
		t.mu.Unlock()
	}
	return progress, err
}

// visit removes an entry if its structure is gone.
func (t *tidier) visit(ctx context.Context, e entered) (bool, error) {
	if at, err := strconv.ParseInt(e.value, 10, 64); err == nil && time.Since(time.UnixMilli(at)) < young {
		return false, nil
	}
	kind, name, _ := strings.Cut(e.field, " ")
	keys := Kind(kind).keys(name)
	for _, k := range keys {
		reply, err := t.run.Run(ctx, "there", k)
		if err != nil || reply.Bool() || reply.Err() != nil {
			return false, err
		}
	}
	if len(keys) == 0 {
		return false, nil // of a kind that this version does not know
	}
	reply, err := t.run.Run(ctx, "leave", key(e.shard), e.field, e.value)
	if err != nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}
