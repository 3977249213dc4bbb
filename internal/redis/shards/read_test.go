package shards

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
	"github.com/millrace/millrace/internal/test/shardstest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestReadsShareTheTime: reads that go out together ask for the time once.
func TestReadsShareTheTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	reads := make([]read, 10)
	for i := range reads {
		base := "{" + strconv.Itoa(i) + "}"
		shardstest.Must(t, client, "HSET", base, "a", shardstest.HeadOf(time.Now().Add(time.Hour))+fmt.Sprint("value ", i))
		reads[i] = read{base, base, []string{"a"}}
	}
	before := shardstest.Asked(server)
	r := &readers{client: client}
	answers, err := r.call(t.Context(), reads)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		stored, err := a.stored[0].ToString()
		value, _, ok, broken := Decode(stored, a.now, "a")
		if err != nil || broken != nil || !ok || string(value) != fmt.Sprint("value ", i) {
			t.Errorf("answer %d = %q, %v, %v, %v", i, value, ok, err, broken)
		}
	}
	after := shardstest.Asked(server)
	if after["hget"]-before["hget"] != 10 || after["time"]-before["time"] != 1 {
		t.Errorf("10 reads were %d HGET and %d TIME", after["hget"]-before["hget"], after["time"]-before["time"])
	}
}

// TestRepairContinues: a repair whose slice has no more time continues where it was, in each
// shard, however little a slice achieves.
func TestRepairContinues(t *testing.T) {
	t.Parallel()
	client, name := redistest.Shared(t).Client(t), redistest.Name(t)
	kind := &Kind{Package: "test", Shard: "mr:hash:{", Record: "mr:hashes:{", Version: "4", Library: script.Load(Scripts, "K:")}
	shardstest.Must(t, client, "HSET", kind.RecordKey(name), "version", "4", "shards", "2")
	const pages = 3
	var visited []string
	var end context.CancelFunc
	r := &repair{client: client, kind: kind, progress: map[string]progress{}}
	r.page = func(ctx context.Context, _ *Space, base string, _ int, at Position) (bool, Position, error) {
		visited = append(visited, base[len(base)-2:]+at.Page)
		switch {
		case len(visited)%2 == 0: // nothing was done in time
			end()
			return false, at, context.Cause(ctx)
		case len(at.Page) == pages:
			return true, Position{}, nil
		}
		end()
		return true, Position{Page: at.Page + "."}, context.Cause(ctx)
	}
	failed := 0
	for {
		ctx, cancel := context.WithCancel(t.Context())
		end = cancel
		_, err := r.visit(ctx, name)
		cancel()
		if err != nil {
			failed++
		}
		if len(r.progress) == 0 {
			break
		}
	}
	if len(visited) != 2*2*(pages+1)-1 || failed != 2*(pages+1)-1 {
		t.Errorf("%d visits, %d of them failed: %q", len(visited), failed, visited)
	}
}

func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, script.Load(Scripts, "K:"))
}
