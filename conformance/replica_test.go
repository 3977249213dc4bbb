package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/tracker"
)

// replicated is an engine whose replicas answer scripts that read. Those of a Cluster do not.
type replicated interface {
	running

	// reader returns a new client that reads from replicas.
	reader(t *testing.T) rueidis.Client

	// data returns all servers that hold data.
	data() []*redistest.Server
}

func readFromReplicas(o *rueidis.ClientOption) {
	o.SendToReplicas = func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() }
}

func (s *behindSentinels) reader(t *testing.T) rueidis.Client {
	t.Helper()
	return s.servers.Client(t, readFromReplicas)
}

func (s *behindSentinels) data() []*redistest.Server { return s.servers.Data }

func (r *runningFleet) reader(t *testing.T) rueidis.Client {
	t.Helper()
	f, err := fleet.Dial(t.Context(), r.url, fleet.Config{ReadReplicas: true, Logger: slog.New(slog.DiscardHandler)})
	must(t, "Dial", err)
	t.Cleanup(f.Close)
	return f.Client()
}

func (r *runningFleet) data() []*redistest.Server { return slices.Collect(maps.Values(r.servers)) }

// replicaBehaviours need replicas: on a single server there is nothing to see.
var replicaBehaviours = []behaviour{
	{"what people look at comes from replicas when a client says so", replicasAnswer},
}

// replicasAnswer has structures looked at by a client that reads from replicas, until each look has been
// answered by one and has seen the writes. A fleet shares names out to a master and its replica.
func replicasAnswer(t *testing.T, on running) {
	r, ok := on.(replicated)
	if !ok {
		return
	}
	if !r.data()[0].Knows("evalsha_ro") {
		return // as before Redis 7.0: the master answers
	}
	writer, names := on.client(t), spread(t, on, 4)
	for _, name := range names {
		q := openQueue(t, writer, name)
		_, err := q.Write(t.Context(), fairqueue.Draft{Tenant: "t", Body: []byte("b")})
		must(t, "Write", err)
		k, err := ick.New(writer, name, ick.Config{})
		must(t, "New", err)
		_, err = k.Add(t.Context(), ick.Entry{Member: "m", Score: 1})
		must(t, "Add", err)
		t.Cleanup(func() {
			_, err := q.Delete(context.Background())
			must(t, "Delete", err)
			_, err = k.Delete(context.Background())
			must(t, "Delete", err)
		})
	}
	type look struct {
		name string
		sees func() (bool, error)
	}
	var looks []look
	reader := r.reader(t)
	for _, name := range names {
		seenQueue := openQueue(t, reader, name)
		seenIck, err := ick.New(reader, name, ick.Config{})
		must(t, "New", err)
		seenTracker, err := tracker.New(reader, name, tracker.Config{})
		must(t, "New", err)
		looks = append(looks,
			look{"queue's Len", func() (bool, error) { n, err := seenQueue.Len(t.Context()); return n == 1, err }},
			look{"queue's Stats", func() (bool, error) { s, err := seenQueue.Stats(t.Context()); return s.Waiting == 1, err }},
			look{"queue's Browse", func() (bool, error) {
				messages, _, err := seenQueue.Browse(t.Context(), fairqueue.BrowseConfig{})
				return len(messages) == 1, err
			}},
			look{"ick's Stats", func() (bool, error) { s, err := seenIck.Stats(t.Context()); return s.Distinct == 1, err }},
			look{"tracker's Stats", func() (bool, error) { _, err := seenTracker.Stats(t.Context()); return true, err }},
		)
	}
	answered := map[string]bool{}
	redistest.Eventually(t, "replicas answer", func() bool {
		for _, l := range looks {
			before := replicaReads(r)
			saw, err := l.sees()
			if err == nil && saw && replicaReads(r) > before {
				answered[l.name] = true
			}
		}
		return len(answered) == 5
	})
}

// replicaReads returns how many scripts and reads of queues replicas have answered.
func replicaReads(r replicated) (calls int) {
	for _, s := range r.data() {
		if s.Info("replication")["role"] == "slave" {
			stats := s.Info("commandstats")
			for _, name := range []string{"evalsha_ro", "hlen"} { // a queue's reads begin with HLEN
				var n int
				_, _ = fmt.Sscanf(stats["cmdstat_"+name], "calls=%d,", &n) // none yet is 0
				calls += n
			}
		}
	}
	return calls
}
