package registry

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// tidierOf returns a tidier that does not rest.
func tidierOf(client rueidis.Client) *tidier {
	return &tidier{run: script.Runner{Client: client, Scripts: library}, visitor: NewVisitor(client, "", nil)}
}

// round has a tidier go round all entries once.
func (td *tidier) round(t *testing.T) {
	t.Helper()
	for {
		progress, err := td.slice(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if progress == millrace.Idle && len(td.visitor.todo) == 0 {
			return
		}
	}
}

// TestTidy: entries of deleted structures are removed, and no others.
func TestTidy(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	old, now := time.Now().Add(-2*young), time.Now()
	for _, kind := range kinds() {
		create(t, client, kind, old, "there", "gone")
		for _, k := range kind.keys("gone") {
			must(t, client, "DEL", k)
		}
	}
	create(t, client, Queue, now, "young")
	must(t, client, "DEL", Queue.keys("young")[0])
	for f, value := range map[string]string{"future thing": "", "queue foreign": "x"} {
		must(t, client, "HSET", key(shardOf(f, parts)), f, value)
	}
	tidierOf(client).round(t)
	all := registered(t, client)
	for _, kind := range kinds() {
		if _, ok := all[field(kind, "there")]; !ok {
			t.Errorf("the %s that is there is not entered any more", kind)
		}
		if _, ok := all[field(kind, "gone")]; ok {
			t.Errorf("the %s that is gone is still entered", kind)
		}
	}
	for f, want := range map[string]bool{"queue young": true, "future thing": true, "queue foreign": false} {
		if _, ok := all[f]; ok != want {
			t.Errorf("%q is entered: %v, want %v", f, ok, want)
		}
	}
}

// TestTidyRace: a structure that begins while its old entry is judged stays in the
// registry, if it is entered before the entry is removed.
func TestTidyRace(t *testing.T) {
	t.Parallel()
	play := func(library *script.Library) (entered bool) {
		client := own(t).Client(t)
		old := strconv.FormatInt(time.Now().Add(-2*young).UnixMilli(), 10)
		f := field(Queue, "a")
		must(t, client, "HSET", key(shardOf(f, parts)), f, old)
		td := tidierOf(client)
		td.run.Scripts = library
		td.run.Hooks = []millrace.Hook{before("registry.leave", func() {
			must(t, client, "HSET", Queue.keys("a")[0], "version", "1")
			settled(t, client, entry(client, "a"))
		})}
		td.round(t)
		_, entered = registered(t, client)[f]
		return entered
	}
	if !play(library) {
		t.Error("what began meanwhile is not entered any more")
	}
	if play(scripttest.Without(t, library, "~= ARGV[2]", "== false")) {
		t.Error("an entry is kept without a look at its value: this shows nothing")
	}
}

// before does something before each call of a script.
type beforeHook struct {
	script string
	do     func()
}

func before(script string, do func()) beforeHook { return beforeHook{script, do} }

func (h beforeHook) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if call.Script == h.script {
		h.do()
	}
	return ctx, nil
}

// TestTidyNeedsAnAnswer: as long as a server does not say that a structure is gone, its
// entry stays.
func TestTidyNeedsAnAnswer(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0)
	client := cluster.Client(t)
	name := "a"
	for i := 0; cluster.MasterOf(Queue.keys(name)[0]) == cluster.MasterOf(key(shardOf(field(Queue, name), parts))); i++ {
		name = strconv.Itoa(i)
	}
	f := field(Queue, name)
	must(t, client, "HSET", key(shardOf(f, parts)), f, "1")
	silent := cluster.MasterOf(Queue.keys(name)[0])
	silent.Pause()
	td := tidierOf(client)
	for range 2 {
		ctx, cancel := script.Within(t.Context(), 100*time.Millisecond)
		_, _ = td.slice(ctx)
		cancel()
	}
	if n, err := client.Do(t.Context(), client.B().Hexists().Key(key(shardOf(f, parts))).Field(f).Build()).AsInt64(); n != 1 {
		t.Errorf("the entry of a structure whose server is silent is gone (%v)", err)
	}
	silent.Resume()
	redistest.Eventually(t, "the entry is removed", func() bool {
		_, _ = td.slice(t.Context())
		return len(registered(t, client)) == 0
	})
}

// TestTidyRests: after a round the job pauses.
func TestTidyRests(t *testing.T) {
	t.Parallel()
	server := own(t)
	client := server.Client(t)
	job := TidyJob(client)
	slice := func() string {
		if _, err := job.Slice(t.Context()); err != nil {
			t.Fatal(err)
		}
		return server.Info("commandstats")["cmdstat_hscan"]
	}
	if first := slice(); first == "" || slice() != first {
		t.Error("another slice looks again at once")
	}
}
